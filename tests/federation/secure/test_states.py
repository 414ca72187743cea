"""States and keys between files and memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

import logofair.federation.secure as secure
from logofair.errors import InputError, SecureRefusalError
from logofair.federation.secure import primitives
from logofair.records import encode
from support.secure_sites import STEP, Federation, public, signing, some_values

OPENSSH = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH)


def test_every_public_name_is_there():
    assert all(getattr(secure, name) is not None for name in secure.__all__)
    assert sorted(secure.__all__) == sorted(set(secure.__all__))


def test_shares_asked_for_again_are_the_same_and_for_other_keys_refused():
    federation = Federation(4)
    federation.keys()
    keys = federation.server.keys
    client, material = federation.clients["site-0"].shares(keys)
    assert client.shares(keys) == (client, material)
    fewer = {site: key for site, key in keys.items() if site != "site-3"}
    with pytest.raises(SecureRefusalError, match="other_request"):
        client.shares(fewer)


def test_neither_contribution_nor_unmasking_comes_before_its_turn():
    federation = Federation(3)
    client = federation.clients["site-0"]
    with pytest.raises(SecureRefusalError, match="out_of_order"):
        client.masked(1, b"", {}, np.array([1.0]), np.array([STEP]), signing("site-0"))
    for act in (lambda: client.confirm(1, {}, signing("site-0")), lambda: client.unmask(1, {})):
        with pytest.raises(SecureRefusalError, match="out_of_order"):
            act()
    with pytest.raises(InputError, match="the server is at stage 'keys', not 'ready'"):
        federation.server.begin_sum(b"", np.array([STEP]))
    with pytest.raises(InputError, match=r"^total: no sum is complete yet"):
        _ = federation.server.total


def test_a_client_forgets_secrets_that_are_no_longer_needed():
    federation = Federation(3).set_up()
    first = federation.clients["site-0"].dealt
    federation.add(some_values(federation.sites))
    text = encode(federation.clients["site-0"])
    for secret in (first.mask_key, first.mask_seed, first.own_pair):
        assert secret not in text
    assert federation.clients["site-0"].dealt.mask_seed in text  # the search finds what is there


def test_printing_a_client_shows_no_secret():
    federation = Federation(3).set_up()
    federation.add(some_values(federation.sites))
    client = federation.clients["site-0"]
    shown = repr(client)
    secrets = [client.channel, client.dealt.mask_key, client.dealt.mask_seed, *client.channels.values()]
    assert not any(repr(secret) in shown for secret in secrets)


def test_keys_in_openssh_form_are_read():
    key = signing("site-0")
    pem = key.private_bytes(*OPENSSH, serialization.NoEncryption())
    assert primitives.public_line(primitives.signing_key(pem)) == public("site-0")
    assert primitives.public_key(f"{public('site-0')} someone@somewhere\n".encode()) == public("site-0")


def test_other_keys_are_refused_in_one_sentence():
    other = ed25519.Ed25519PrivateKey.generate()
    smaller = ec.generate_private_key(ec.SECP256R1())
    for key in (other, smaller):
        with pytest.raises(InputError, match=r"^k: is a key of another kind than ECDSA P-384"):
            primitives.signing_key(key.private_bytes(*OPENSSH, serialization.NoEncryption()), "k")
        line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        with pytest.raises(InputError, match=r"^k\.pub: is no public key of kind ECDSA P-384"):
            primitives.public_key(line, "k.pub")
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    locked = signing("site-0").private_bytes(*form, serialization.BestAvailableEncryption(b"word"))
    with pytest.raises(InputError, match=r"^k: is no private key that can be read without a password"):
        primitives.signing_key(locked, "k")
    with pytest.raises(InputError, match=r"^key of site-1: is no public key"):
        secure.SecureClient.start(
            "r", "site-0", ("site-0", "site-1", "site-2"), signing("site-0"), {"site-1": "", "site-2": ""}
        )


def test_without_the_extra_the_error_names_it():
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "try: import logofair.federation.secure\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("run: pip install 'logofair[secure]'.")
