"""A site on disk: its settings, its file, and its state between messages.

Engines may start a new process for every message, and processes are killed: the state is stored before a reply is
handed over, so that the same message gets the same reply and the policy is the one the server has counted. Nothing but
the reply leaves the site; problems are written to its own folder and never sent.
"""

from __future__ import annotations

import contextlib
import re
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path

from logofair.engines.events import Event, Tell, append_event, happened, ignore
from logofair.errors import DiskFullError, InputError, RefusedError
from logofair.federation.client import Client, SecureIdentity, StoredClient
from logofair.federation.exchange import Refusal
from logofair.federation.limits import SiteLimits
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.plan import Plan, check_run_name
from logofair.federation.policies import SitePolicies
from logofair.federation.privacy import Release, StoredRelease, release_once
from logofair.federation.rows import SiteColumns, site_rows
from logofair.files.documents import Document
from logofair.files.inputs import ColumnNames, one_file
from logofair.files.rows import read_rows
from logofair.files.tables import fingerprint
from logofair.files.values import label_text
from logofair.files.writing import locked
from logofair.policy.info import ColumnsInfo
from logofair.policy.policy import Policy
from logofair.records import decode, encode

_RELEASE = "release.json"
_UNFIT = "unfit.json"  # of a plan that the rows here did not fit


@dataclass(frozen=True)
class SiteSettings:
    """What a site's people set for their client; nothing of it leaves the site but its name."""

    site: str  # its name in the run
    data: str  # its file: CSV, Parquet or Arrow
    columns: ColumnNames  # what which column means and which rows count: group, and what the plan needs
    folder: str  # where the site keeps its state (private) and the problems it had
    policy: str  # where its policy is written
    key: str | None = None  # for secure sums: the file of its private key
    peers: str | None = None  # for secure sums: a folder of the other sites' public keys, NAME.pub
    # For secure sums: the fingerprint of each peer's key by name, as read out by its people. A fingerprint without a
    # name would let one site that helps the server stand under all of their names.
    trusted: Mapping[str, str] = field(default_factory=dict)
    agreed_without: tuple[str, ...] = ()  # for secure sums: sites without whom it agrees to go on
    # One further run, by its name, that may use rows of a run before it: the difference of two can tell more than each.
    again: str | None = None
    # What its people have agreed to: the plan is the server's word, and it might be another than was agreed on.
    limits: SiteLimits = field(default_factory=SiteLimits)

    def __post_init__(self) -> None:
        names = sorted(self.trusted)
        for name, other in combinations(names, 2):
            if self.trusted[name] == self.trusted[other]:
                raise InputError(
                    f"trusted: {name!r} and {other!r} have the same fingerprint, and every site has a key of its own; "
                    "have the people of both read you theirs again."
                )

    def write(self, path: str | Path) -> None:
        """Store the settings."""
        _SETTINGS.write(path, self)

    @classmethod
    def read(cls, path: str | Path) -> SiteSettings:
        """Read stored settings."""
        return _SETTINGS.read(path)

    def identity(self) -> SecureIdentity | None:
        """The keys for secure sums, where the site has any; of its peers' those that its people have compared."""
        if self.key is None:
            return None
        # Also so that messages of secure sums can be read.
        from logofair.federation.secure import key_fingerprint

        peers: dict[str, str] = {}
        for file in sorted(Path(self.peers).glob("*.pub")) if self.peers else []:
            known = self.trusted.get(file.stem)
            if known is not None and key_fingerprint(_text(file).encode(), str(file)) == known:
                peers[file.stem] = _text(file)
        return SecureIdentity(_text(Path(self.key)), peers, self.agreed_without)


@dataclass(frozen=True, eq=False)
class StoredSite:
    """A site's state in a run, and the fingerprint of the data it is about."""

    client: StoredClient
    data: str


@dataclass(frozen=True)
class _UnfitPlan:
    """A plan that the rows here did not fit."""

    run: str
    digest: str


_SETTINGS = Document(SiteSettings, "logofair site", 2, "site settings", "start the site again", private=True)
_CLIENT = Document(
    StoredSite, "logofair client", 4, "client state", "restore it from a backup, or leave the run", private=True
)
UNFIT = Document(_UnfitPlan, "logofair unfit plan", 1, "unfit plan", "remove it", private=True)
RELEASE = Document(StoredRelease, "logofair release", 2, "release", "restore the file", private=True)


def answer_on_disk(settings_path: str, message: bytes, tell: Tell | None = None) -> bytes:
    """Answer one message as the site of some settings; never raises, and a refusal is a fixed word.

    ``tell`` is told what the site's people should know: the plan, problems, the policy once it is written. By default
    that goes to a file in the site's folder.
    """
    site, position = "", ("", 0, 0)
    say = tell or ignore
    try:
        settings = SiteSettings.read(settings_path)
        site, folder = settings.site, Path(settings.folder)
        say = tell or partial(_write_event, folder)
        identity = settings.identity()
        received = decode(message, RequestMessage)
        check_run_name(received.run)
        position = (received.run, received.roster, received.number)
        start = time.monotonic()
        with locked(folder / "site.lock"):
            reply = encode(_answer(settings, identity, received, say))
        kind = type(received.request).__name__.removesuffix("Request")
        kind = received.step or re.sub("(?<=[a-z])(?=[A-Z])", " ", kind).lower()
        seconds = time.monotonic() - start
        values = {"exchange": received.number, "purpose": kind, "bytes_back": len(reply), "seconds": round(seconds, 3)}
        say(happened("reply", **values))
        return reply
    except RefusedError as error:
        refusal, problem = error.refusal, Event("problem", str(error))
    except DiskFullError as error:
        refusal, problem = Refusal.DISK_FULL, Event("problem", str(error))
    except InputError as error:
        refusal, problem = Refusal.BAD_DATA if position[0] else Refusal.BAD_MESSAGE, Event("problem", str(error))
    except Exception:
        lines = traceback.format_exc().strip()
        refusal, problem = Refusal.INTERNAL, Event("problem", lines.splitlines()[-1], {"traceback": lines})
    say(problem)
    return encode(ReplyMessage(*position, site, None, refusal.name))


def _write_event(folder: Path, event: Event) -> None:
    """Write an event to the site's own file; failing at that must not fail the reply."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        append_event(folder, event)


def read_site(settings: SiteSettings, plan: Plan) -> SiteColumns:
    """The columns of a site's file that a plan needs."""
    needed = ("group", "score", "weight", *(("label",) if plan.calibration != "none" else ()))
    for role in needed:
        if role != "weight" and not getattr(settings.columns, role):
            raise InputError(f"{settings.data}: the plan needs a {role} column; name it with --{role}.")
    rows = read_rows(one_file(Path(settings.data)), settings.columns.only(*needed))
    names = {str(name): name for name in plan.groups}  # a CSV file has text where another site's has numbers
    assert rows.groups is not None  # a column that is needed
    # Several columns stand in a plan as one of their intersections, as files write these.
    texts = (label_text(value) if isinstance(value, tuple) else value for value in rows.groups.labels.tolist())
    groups = [names.get(str(text), text) for text in texts]
    strange = next((value for value in dict.fromkeys(groups) if str(value) not in names), None)
    if strange is not None:
        raise RefusedError(
            Refusal.UNKNOWN_GROUP,
            f"{settings.data}: has rows of the group {strange!r}, which is not in the plan "
            f"({', '.join(map(repr, plan.groups))}); drop such rows, or agree on a plan that names it.",
        )
    return SiteColumns(groups, rows.scores, rows.labels, rows.weights)


def with_columns(policy: Policy, settings: SiteSettings) -> Policy:
    """A site's policy that knows the columns of the site's file, so that new files need not name them again."""
    names = settings.columns
    columns = ColumnsInfo(names.score, names.group, names.site, names.scale, na=names.na)
    return replace(policy, info=replace(policy.info, columns=columns))


def _answer(
    settings: SiteSettings, identity: SecureIdentity | None, message: RequestMessage, say: Tell
) -> ReplyMessage:
    """Answer with the stored state of the run, and store the next one before the reply is handed over."""
    folder, data = Path(settings.folder), fingerprint(settings.data)
    file = folder / f"{message.run}.client.json"
    at = _CLIENT.read(file) if file.exists() else StoredSite(StoredClient(), data)
    stored = at.client
    if stored.run not in ("", message.run):  # on disks that take two names for one
        raise RefusedError(
            Refusal.NOT_AGREED,
            f"{file}: is of run {stored.run!r}, whose files this disk does not tell from those of run "
            f"{message.run!r}; have the new run started under another name.",
        )
    if at.data != data:
        raise RefusedError(Refusal.DATA_CHANGED, f"{settings.data}: is not the file this run began with; put it back.")
    plan = stored.state.plan if stored.state is not None else message.opening.plan if message.opening else None
    if plan is None:
        raise RefusedError(Refusal.UNKNOWN_RUN)
    if plan.privacy is None and settings.again != message.run and (folder / _RELEASE).exists():
        raise RefusedError(
            Refusal.NOT_AGREED,
            f"run {message.run!r} has no differential privacy, but this site released a noised histogram of these "
            f"rows before, and exact counts would undo its noise: agree to that with --again {message.run}, or leave "
            "the run.",
        )
    if message.opening is not None:  # the plan is shown before anything is answered, or the rows are read, or noised
        from logofair.words.federated import plan_sentences

        for label, sentence in plan_sentences(plan, message.opening.members):
            say(Event("plan", f"{label}: {sentence}", {"run": plan.run, "part": label}))
        settings.limits.check(plan, settings.site, message.opening.members.number)
    if not stored.run:
        _check_earlier_runs(settings, plan)
    columns = read_site(settings, plan) if stored.run else _fitting_columns(settings, plan)
    client = Client(settings.site, columns, stored, identity, limits=settings.limits)
    if plan.privacy is not None:
        client = replace(client, releases=(stored_release(folder, client.columns, plan),))
    client, reply = client.handle(message)
    if client.stored is not stored:
        _CLIENT.write(file, StoredSite(client.stored, data))
    if client.forged:
        say(Event("forged", client.forged, {"run": message.run}))
    elif client.trouble:
        say(Event("problem", client.trouble))
    elif client.finished:
        with_columns(SitePolicies(client.batch)[settings.site], settings).save(settings.policy)
        say(happened("policy", run=message.run))
    return reply


def _check_earlier_runs(settings: SiteSettings, plan: Plan) -> None:
    """One set of rows takes part in one run with secure sums and in none beside it, unless its people name the other.

    A plan without secure sums counts too: what it shows of this site would come off the totals of the run before. Nor
    does any consent allow another smallest cell: what is between the two are the rows of one site's small group.
    """
    for file in sorted(Path(settings.folder).glob("*.client.json")):
        other = _CLIENT.read(file).client
        before = None if other.state is None else other.state.plan
        if not (plan.secure or (before is not None and before.secure)):
            continue
        if settings.again != plan.run:
            raise RefusedError(
                Refusal.NOT_AGREED,
                f"this site took part in run {other.run!r} before; the difference of two runs can tell more about "
                f"it than each alone: agree to run {plan.run!r}, and to no other, with --again {plan.run}.",
            )
        if before is None or before.privacy is not None or plan.privacy is not None:  # noise covers all cells
            continue
        if before.smallest_cell != plan.smallest_cell:
            raise RefusedError(
                Refusal.NOT_AGREED,
                f"run {plan.run!r} counts groups of {plan.smallest_cell} rows or more, and run {other.run!r}, in "
                f"which this site took part before, those of {before.smallest_cell} or more; the difference would "
                f"tell of one site's small group: agree on --smallest-cell {before.smallest_cell} again.",
            )


def _fitting_columns(settings: SiteSettings, plan: Plan) -> SiteColumns:
    """The columns at the beginning of a run, checked against its plan.

    Whether rows fit a plan says something about them: which groups and columns there are. So where only limits decide
    which plans are looked at, one that does not fit is the last until the site is started again.
    """
    path = Path(settings.folder) / _UNFIT
    if path.exists() and settings.limits.plan is None:
        before = UNFIT.read(path)
        if before.digest != plan.fingerprint:
            raise RefusedError(
                Refusal.PLAN_REFUSED,
                f"run {plan.run!r}: its plan is not looked at. That of run {before.run!r} did not fit this site's "
                "rows, and a server could learn about them by sending plan after plan: start this site again, or "
                f"remove {path}.",
            )
    try:
        columns = read_site(settings, plan)
        site_rows(columns, plan)
    except (InputError, RefusedError):
        UNFIT.write(path, _UnfitPlan(plan.run, plan.fingerprint))
        raise
    return columns


def forget_unfit_plan(folder: Path) -> None:
    """Forget that a plan did not fit the rows: the site's people have started it again."""
    (folder / _UNFIT).unlink(missing_ok=True)


def stored_release(folder: Path, columns: SiteColumns, plan: Plan) -> Release:
    """The site's one noised histogram: stored before anything computed from it leaves the site."""
    assert plan.privacy is not None
    rows, file = site_rows(columns, plan), folder / _RELEASE
    before = RELEASE.read(file) if file.exists() else None
    now = release_once(before, rows.scores, rows.groups.codes, n_groups=len(plan.groups), privacy=plan.privacy)
    if now is not before:
        folder.mkdir(parents=True, exist_ok=True)
        RELEASE.write(file, now)
    return now.release


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{file}: cannot be read as a key; check the path and its rights.") from None
