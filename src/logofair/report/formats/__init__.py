"""Figures in the forms that auditors ask for: text to be completed by people, one module for each form.

A form states what was measured, with intervals, and names what is somebody else's to say. No form is a verdict: none
says that a rule is lawful.
"""

from logofair.report.formats.annex_iv import annex_iv_text
from logofair.report.formats.ll144 import ll144_text
from logofair.report.formats.model_card import model_card_text

__all__ = ["annex_iv_text", "ll144_text", "model_card_text"]
