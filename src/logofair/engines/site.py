"""A site on disk: its settings, its file, and its notes between messages.

Engines may start a new process for every message, and plugs get pulled: the notes are stored before a reply is handed
over, so that the same question gets the same reply, and whatever was promised can be kept. Nothing but the reply leaves
the site; complaints are written to its own folder and never sent.
"""

from __future__ import annotations

import base64
import contextlib
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from logofair.errors import InputError, RefusedError
from logofair.federation.client import Client, SecureIdentity, StoredClient
from logofair.federation.messages import Question, Refusal, Reply
from logofair.federation.plan import Plan
from logofair.federation.policies import SitePolicies
from logofair.federation.privacy.kept import StoredRelease, release_once
from logofair.federation.privacy.release import Release
from logofair.federation.rows import SiteColumns, site_rows
from logofair.federation.wire import decode, encode
from logofair.files.documents import read_document, write_document
from logofair.files.locks import locked
from logofair.files.tables import feature_matrix, fingerprint, read_columns
from logofair.policy.policy import Policy

__all__ = ["SiteSettings", "answer_on_disk", "kept_release", "read_site"]

_FORMAT, _VERSION, _WHAT = "logofair site", 1, "site settings"
_RELEASE = "release.json"
_NOTES, _NOTES_WHAT = "logofair notes", "site notes"


@dataclass(frozen=True)
class SiteSettings:
    """What a site tells its own client; nothing of it leaves the site but its name.

    Parameters
    ----------
    site : str
        The site's name in the run.
    data : str
        Its file: CSV, Parquet or Arrow.
    columns : mapping
        Names of the columns by role: ``group``, and as the plan needs them ``score``, ``label``, ``weight``.
    positive : str or None
        The value of the label column that counts as 1, where labels are text.
    folder : str
        Where the site keeps its notes (private) and its complaints.
    policy : str
        Where its policy is written.
    key, peers : str or None
        For secure sums: the file of its private key, and a folder of the other sites' public keys, ``NAME.pub``.
    agreed_without : tuple of str
        For secure sums: sites without whom it agrees to go on.
    again : bool
        For secure sums: agree to a further run on the same rows (the difference of two runs can tell more than each).
    only_secure : bool
        Refuse plans without secure sums: the plan is the server's word, and it might be another than was agreed on.
    most_epsilon : float or None
        The most that differential privacy may spend here; with it plans without privacy are refused too.

    Examples
    --------
    >>> SiteSettings("north", "north.csv", {"group": "sex", "score": "p"}, folder="state", policy="north.json").site
    'north'
    """

    site: str
    data: str
    columns: Mapping[str, str]
    folder: str
    policy: str
    positive: str | None = None
    key: str | None = None
    peers: str | None = None
    agreed_without: tuple[str, ...] = ()
    again: bool = False
    only_secure: bool = False
    most_epsilon: float | None = None

    def write(self, path: str | Path) -> None:
        """Store the settings."""
        body = {name: getattr(self, name) for name in self.__dataclass_fields__}
        body["columns"], body["agreed_without"] = dict(self.columns), list(self.agreed_without)
        write_document(path, _FORMAT, _VERSION, body, what=_WHAT, private=True)

    @classmethod
    def read(cls, path: str | Path) -> SiteSettings:
        """Read stored settings."""
        body = read_document(path, _FORMAT, _VERSION, what=_WHAT, remedy="start the site again")
        try:
            return cls(**{**body, "agreed_without": tuple(body["agreed_without"])})
        except (LookupError, TypeError):
            raise InputError(f"{path}: parts of the {_WHAT} are missing; start the site again.") from None

    def identity(self) -> SecureIdentity | None:
        """The keys for secure sums, where the site has any."""
        if self.key is None:
            return None
        import logofair.federation.secure.exchange  # noqa: F401  # so that messages of secure sums can be read

        peers: dict[str, str] = {}
        for file in sorted(Path(self.peers).glob("*.pub")) if self.peers else []:
            peers[file.stem] = _text(file)
        return SecureIdentity(_text(Path(self.key)), peers, self.agreed_without)


def answer_on_disk(settings_path: str, message: bytes) -> bytes:
    """Answer one message as the site of some settings; never raises, and never tells why beyond a fixed word.

    Parameters
    ----------
    settings_path : str
        File written by :meth:`SiteSettings.write`.
    message : bytes
        An encoded :class:`~logofair.federation.messages.Question`.

    Returns
    -------
    bytes
        An encoded :class:`~logofair.federation.messages.Reply`.
    """
    site, place, folder = "", ("", 0, 0), None
    try:
        settings = SiteSettings.read(settings_path)
        site, folder = settings.site, Path(settings.folder)
        identity = settings.identity()
        ask = decode(message)
        if not isinstance(ask, Question) or not ask.run.replace("-", "").replace("_", "").isalnum():
            raise RefusedError(Refusal.BAD_MESSAGE)
        place = (ask.run, ask.roster, ask.number)
        with locked(folder / "site.lock"):
            return encode(_answer(settings, identity, ask))
    except RefusedError as error:
        refusal = error.refusal
        _complain(folder, str(error))
    except InputError as error:
        refusal = Refusal.BAD_DATA if place[0] else Refusal.BAD_MESSAGE
        _complain(folder, str(error))
    except Exception:
        refusal = Refusal.INTERNAL
        _complain(folder, traceback.format_exc())
    return encode(Reply(*place, site, None, refusal.name))


def read_site(settings: SiteSettings, plan: Plan) -> SiteColumns:
    """The columns of a site's file that a plan needs."""
    wanted = {role: name for role, name in settings.columns.items() if role in _needed(plan)}
    for role in _needed(plan):
        if role not in wanted and role != "weight":
            raise InputError(f"{settings.data}: the plan needs a {role} column; name it with --{role}.")
    table = read_columns(settings.data, wanted, positive=settings.positive)
    names = {str(name): name for name in plan.groups}  # a CSV file has text where another site's has numbers
    groups = [names.get(str(value), value) for value in table["group"].tolist()]
    features = None if plan.training is None else feature_matrix(settings.data, plan.training.features)
    return SiteColumns(groups, table.get("score"), table.get("label"), table.get("weight"), features)


def _needed(plan: Plan) -> tuple[str, ...]:
    scores = () if plan.training is not None else ("score", "weight")
    return ("group", *scores, *(("label",) if plan.needs_labels else ()))


def _answer(settings: SiteSettings, identity: SecureIdentity | None, ask: Question) -> Reply:
    """Answer with the notes of the run, and store them before the reply is handed over."""
    folder, data = Path(settings.folder), fingerprint(settings.data)
    file = folder / f"{ask.run}.notes.json"
    notes, known = _notes(file)
    if known not in ("", data):
        raise RefusedError(Refusal.DATA_CHANGED, f"{settings.data}: is not the file this run began with; put it back.")
    plan = notes.memory.plan if notes.memory is not None else ask.opening.plan if ask.opening else None
    if plan is None:
        raise RefusedError(Refusal.UNKNOWN_RUN)
    _check_privacy(settings, plan, ask.run)
    if settings.only_secure and not plan.secure:
        raise RefusedError(Refusal.UNSAFE_SUM, f"run {ask.run!r} is planned without secure sums; this site wants them.")
    if plan.secure and not notes.run:
        _first_time(settings, ask.run)
    client = Client(settings.site, read_site(settings, plan), notes, identity)
    if plan.privacy is not None:
        client = replace(client, releases=(kept_release(folder, client.columns, plan),))
    client, reply = client.handle(ask)
    if client.complaint:
        _complain(folder, client.complaint)
    if client.notes is not notes:
        _store(file, client.notes, data)
    if client.finished:
        _write_policy(SitePolicies(client.state())[settings.site], settings, client)
    return reply


def _check_privacy(settings: SiteSettings, plan: Plan, run: str) -> None:
    """The plan is the server's word; how much privacy is enough is the site's."""
    released = (Path(settings.folder) / _RELEASE).exists()
    if plan.privacy is None and (settings.most_epsilon is not None or released):
        why = "has released a noised histogram before" if released else "wants differential privacy"
        raise RefusedError(Refusal.NOT_AGREED, f"run {run!r} is planned without differential privacy; this site {why}.")
    if plan.privacy is not None and settings.most_epsilon is not None and plan.privacy.epsilon > settings.most_epsilon:
        raise RefusedError(
            Refusal.NOT_AGREED,
            f"run {run!r} would spend epsilon {plan.privacy.epsilon:g}; this site spends {settings.most_epsilon:g}.",
        )


def _first_time(settings: SiteSettings, run: str) -> None:
    """Under secure sums one set of rows takes part in one run, unless its people say otherwise."""
    others = [f.name.removesuffix(".notes.json") for f in Path(settings.folder).glob("*.notes.json")]
    if others and not settings.again:
        raise RefusedError(
            Refusal.NOT_AGREED,
            f"this site took part in run {others[0]!r} before; the difference of two runs can tell more about it than "
            f"each alone: agree to run {run!r} with --again.",
        )


def kept_release(folder: Path, columns: SiteColumns, plan: Plan) -> Release:
    """The site's one noised histogram: stored before anything computed from it leaves the site."""
    assert plan.privacy is not None
    rows, file = site_rows(columns, plan), folder / _RELEASE
    kept = None
    if file.exists():
        kept = StoredRelease.from_json(
            read_document(file, "logofair release", 1, what="release", remedy="restore the file")
        )
    now = release_once(kept, rows.scores, rows.groups, n_groups=len(plan.groups), privacy=plan.privacy)
    if now is not kept:
        folder.mkdir(parents=True, exist_ok=True)
        write_document(file, "logofair release", 1, now.as_json(), what="release", private=True)
    return now.release


def _notes(file: Path) -> tuple[StoredClient, str]:
    """Stored notes, and the fingerprint of the data they are about."""
    if not file.exists():
        return StoredClient(), ""
    body = read_document(file, _NOTES, 1, what=_NOTES_WHAT, remedy="restore it from a backup, or leave the run")
    notes = decode(base64.b64decode(body["notes"]))
    if not isinstance(notes, StoredClient):
        raise InputError(f"{file}: holds something else than notes; restore it from a backup, or leave the run.")
    return notes, str(body["data"])


def _store(file: Path, notes: StoredClient, data: str) -> None:
    body = {"notes": base64.b64encode(encode(notes)).decode(), "data": data, "run": notes.run}
    write_document(file, _NOTES, 1, body, what=_NOTES_WHAT, private=True)


def _write_policy(policy: Policy, settings: SiteSettings, client: Client) -> None:
    policy.save(settings.policy)
    done = {"run": client.notes.run, "policy": settings.policy, "warnings": list(policy.info.warnings)}
    path = Path(settings.folder) / f"{client.notes.run}.done.json"
    write_document(path, "logofair done", 1, done, what="end of a run")


def _complain(folder: Path | None, sentence: str) -> None:
    """Tell the site's own people, in a file of their own; failing at that must not fail the reply."""
    if folder is not None:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "complaints.txt").open("a", encoding="utf-8") as file:
                file.write(sentence.rstrip() + "\n")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{file}: cannot be read as a key; check the path and its rights.") from None
