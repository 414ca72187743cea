"""No plan makes a total one site's: each attack on the code of before, and what stops it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pytest

from logofair.engines.conductor import ServerState, conduct
from logofair.engines.inprocess import LocalTransport, run, run_apart
from logofair.errors import InputError, RunError
from logofair.federation import Client, ClientBatch, Plan, Privacy, Server, SiteColumns, SiteLimits, make_plan
from logofair.federation.exchanges.calibrating import Contributors, CurvatureExchange, GroupRows, GroupRowsExchange
from logofair.federation.exchanges.rounds import Answers, Totals, TotalsExchange
from logofair.federation.plan import Members
from logofair.solvers.algorithm1 import Algorithm1
from logofair.words.federated import _run_sentences, plan_sentences
from support.sites import Tampered, clients, federation, go, gone_from, identities, plan_of, rows

pytestmark = pytest.mark.federation


def one_large(sizes=(1000, 60, 80, 70)):
    return federation(sizes)


def totals_of(plan, sites):
    """The totals of a run in its order, as a server has them, up to where the run stops."""
    batch, server, found = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), []
    while not server.done:
        batch, sums = batch.answer(server.request)
        found.append(sums.total())
        server = server.take(found[-1])
    return found


@pytest.mark.parametrize("cell", [21, 400, 1_000_000])
def test_no_secure_plan_silences_small_sites_by_its_smallest_cell(cell):
    sites = one_large()
    if cell == 400:  # the attack is a real one: without secure sums the same plan counts the large site alone
        totals = next(each for each in totals_of(plan_of(smallest_cell=cell), sites) if isinstance(each, Totals))
        assert totals.mass.sum() == 1000
        assert totals.positives.sum() == pytest.approx(np.sum(sites["a"].scores))
    with pytest.raises(InputError, match=r"smallest_cell: got .* 20 at most: .* that site's numbers"):
        plan_of(secure=True, smallest_cell=cell)
    assert plan_of(secure=True, smallest_cell=20).smallest_cell == 20


def test_a_sites_limits_bound_the_smallest_cell_from_above_too():
    limits = SiteLimits(most_smallest_cell=10)
    assert limits.objection(plan_of(smallest_cell=10), "a") is None
    assert "leaves out groups below 11 rows" in limits.objection(plan_of(smallest_cell=11), "a")


def without_group(columns, group, few=0):
    stay = (np.asarray(columns.sensitive_features) != group) | (
        np.cumsum(np.asarray(columns.sensitive_features) == group) <= few
    )
    return SiteColumns(*(None if part is None else np.asarray(part)[stay] for part in vars(columns).values()))


@pytest.mark.parametrize("few", [0, 4])
@pytest.mark.parametrize("counting", [0, 1, 2])
def test_a_group_that_fewer_than_three_sites_count_stops_the_run_before_anything_is_summed(counting, few):
    sites = one_large()
    sites = {s: c if s in "abcd"[:counting] else without_group(c, 1, few) for s, c in sites.items()}
    transport, seen = LocalTransport(clients(sites, identities(sites))), []
    with pytest.raises(RunError, match=rf"run test: 1: NOT MEASURED, since {counting} of 4 sites .*plan without it"):
        go(plan_of(secure=True, smallest_cell=5), transport, save=seen.append)
    assert all(state.server.number == 1 for state in seen)  # nothing but the numbers of contributors was summed


def lying(client, change):
    """A client whose own sums are changed before they are masked."""

    class Lying(Client):
        def sums(self, message):
            after, own = super().sums(message)
            return after, change(own)

    return Lying(client.site, client.columns, identity=client.identity)


def claiming(places):
    """What claims that the sites at some places of the roster contribute to everything of group 1."""

    def change(sums):
        if not isinstance(sums, Contributors):
            return sums
        marks = {f.name: getattr(sums, f.name).copy() for f in fields(sums)}
        for each in marks.values():
            each[list(places), 1] = 1.0
        return replace(sums, **marks)

    return change


@pytest.mark.parametrize("n", [3, 4, 6])
def test_a_site_that_claims_for_another_is_found_out_by_the_other(n):
    """Else the totals of the group would be those of site a alone, once the liar's own rows are taken off."""
    sites = federation((300, 60, 80, 70, 90, 65)[:n])
    for site in list(sites)[1:]:
        sites[site] = without_group(sites[site], 1)
    every = clients(sites, identities(sites))
    last = max(sites)
    every[last] = lying(every[last], claiming([1, n - 1]))
    transport, seen = LocalTransport(every), []
    with pytest.raises(RunError, match="sum 2: the masks did not cancel"):
        go(plan_of(secure=True), transport, save=seen.append)
    assert "another contributes in its name" in transport.sites["b"].stored.failed
    assert all(state.server.roster_counts is None for state in seen)


def test_a_site_that_claims_for_one_that_vanished_is_found_out_by_the_others():
    sites = federation((300, 60, 80, 70, 90))
    for site in "bcd":
        sites[site] = without_group(sites[site], 1)
    every = clients(sites, identities(sites))
    every["e"] = lying(every["e"], claiming([2, 4]))
    transport, seen = Tampered(every, deaf=gone_from({"c"}, 1, step="masked")), []
    with pytest.raises(RunError, match="sum 2: the masks did not cancel"):
        go(plan_of(secure=True), transport, save=seen.append)
    assert "or in a lost site's" in transport.sites["b"].stored.failed
    assert all(state.server.roster_counts is None for state in seen)


@pytest.mark.parametrize(("sizes", "fed"), [((30, 30, 260), False), ((130, 130, 260), True), ((90, 260, 260), False)])
def test_a_site_that_claims_many_rows_gets_no_fold_sums_of_the_others_few(sizes, fed):
    """The first site's sums of folds would be those of the others' rows, once the liar takes its own off."""
    sites = federation([1200] * 3)
    for (site, columns), few in zip(sites.items(), sizes, strict=True):
        sites[site] = without_group(columns, 1, few)
    every = clients(sites, identities(sites))

    def change(sums):
        return replace(sums, rows=np.full(2, 1e6)) if isinstance(sums, GroupRows) else sums

    every["c"] = lying(every["c"], change)
    sent = []
    with suppress(RunError):
        go(plan_of(secure=True, calibration="beta"), LocalTransport(every), save=sent.append)
    places = [state.server.phase.levels.places for state in sent if isinstance(state.server.phase, CurvatureExchange)]
    assert places
    assert all((each[1] >= 0) == fed for each in places)


def test_many_rows_of_little_weight_make_no_fold_sums_of_the_others():
    sites, plan = federation((520, 560, 600)), plan_of(calibration="beta", secure=True)
    light = {**sites, "a": replace(sites["a"], sample_weight=np.full(520, 0.02))}
    for given, full in ((sites, 1.0), (light, 0.0)):
        _, marks = ClientBatch.of(given, plan).answer(Server.start(plan, list(given)).request)
        assert marks.groups[0, 0].tolist() == [1.0, 1.0]  # its rows weigh as much as some people
        assert marks.folds[0, 0, :, 0].max() == full


@pytest.mark.parametrize("weight", [1e-6, 1e-3])
def test_rows_that_weigh_next_to_nothing_hide_nobodys_numbers(weight):
    sites = federation((60, 70, 80))
    light = {
        site: replace(each, sample_weight=np.full(len(each.scores), weight))
        for site, each in sites.items()
        if site != "c"
    }
    # The attack is a real one: without secure sums the same totals are those of the one site whose rows weigh.
    totals = next(each for each in totals_of(plan_of(), {**sites, **light}) if isinstance(each, Totals))
    assert totals.mass.sum() == pytest.approx(80, abs=0.2)
    with pytest.raises(RunError, match="NOT MEASURED, since 1 of 3 sites"):
        totals_of(plan_of(secure=True), {**sites, **light})


def rows_shown(secure, few):
    """The number of a group's rows in all, where two sites have many of them and the third a few."""
    third = without_group(rows(400, seed=3), 1, few)
    sites = {"a": rows(800, seed=1), "b": rows(900, seed=2), "c": third}
    server = Server.start(plan_of(calibration="beta", secure=secure), list(sites))
    batch = ClientBatch.of(sites, server.plan)
    while not isinstance(server.phase, GroupRowsExchange):
        batch, sums = batch.answer(server.request)
        server = server.take(sums.total())
    return batch.answer(server.request)[1].total().rows[1]


def test_the_number_of_a_groups_rows_does_not_tell_those_of_the_one_site_that_has_few():
    # The attack is a real one: clipped at 250, the numbers of the large sites are known to everybody.
    assert [rows_shown(False, few) - 500 for few in (3, 7, 9, 37)] == [3, 7, 9, 37]
    assert len({rows_shown(True, few) for few in (3, 7, 9)}) == 1
    assert len({rows_shown(True, few) for few in (10, 37, 49)}) == 1


@pytest.mark.parametrize("labelled", [False, True])
def test_a_rate_among_people_whom_one_site_alone_has_stops_the_run(labelled):
    """Positives at one site: the denominator of the true positive rate, and what is accepted of it, would be its."""
    sites = one_large()
    for site in "bcd":
        own = np.asarray(sites[site].sensitive_features) == 1
        nobody = {"scores": np.where(own, 1e-6, sites[site].scores), "labels": np.where(own, 0, sites[site].labels)}
        sites[site] = replace(sites[site], **nobody)
    settings = {"notion": "equal_opportunity", "calibration": "beta" if labelled else "none"}
    plain = [each for each in totals_of(plan_of(**settings), sites) if isinstance(each, Totals | Answers)]
    if not labelled:  # the attack is a real one
        mine = np.asarray(sites["a"].sensitive_features) == 1
        assert plain[0].positives[1] == pytest.approx(np.sum(sites["a"].scores[mine]), rel=1e-3)
    with pytest.raises(RunError, match="1, as far as the true positive rate counts them: NOT MEASURED, since 1 of 4"):
        run_apart(plan_of(secure=True, **settings), sites, identities(sites))
    run_apart(plan_of(secure=True, calibration=settings["calibration"]), sites, identities(sites))


@pytest.mark.parametrize(
    ("asked", "who"),
    [
        ("true positive rate of 1 - true positive rate of everyone <= 0.5 overall", "1"),
        ("true positive rate of everyone >= 0.1 overall", "everyone"),
    ],
)
def test_a_difference_or_a_rate_of_everyone_among_people_whom_one_site_alone_has_stops_the_run(asked, who):
    sites = one_large()
    for site in "bcd":
        own = np.asarray(sites[site].sensitive_features) == 1
        sites[site] = replace(sites[site], scores=np.where(own | (who == "everyone"), 1e-6, sites[site].scores))
    plan = plan_of(secure=True, require=asked, local_tolerance=None, global_tolerance=None)
    with pytest.raises(RunError, match=f"{who}, as far as the true positive rate counts them: .* 1 of 4 sites"):
        run_apart(plan, sites, identities(sites))


def test_what_the_first_sum_says_of_a_site_is_nothing_but_ones_and_zeros():
    plan = plan_of(secure=True, smallest_cell=5, notion="equalized_odds")
    for n, seed in ((4, 0), (60, 1), (3000, 2)):
        client = ClientBatch.of({"a": rows(n, seed=seed)}, plan)
        sums = client.answer(Server.start(plan, "abc").request)[1]
        assert isinstance(sums, Contributors)
        assert all(set(np.unique(getattr(sums, field.name))) <= {0.0, 1.0} for field in fields(sums))


def test_under_differential_privacy_contributors_are_counted_in_the_noised_histograms():
    plan = plan_of(secure=True, privacy=Privacy(1.0, 1e-6))
    batch = ClientBatch.of(federation((40, 30, 50)), plan)
    batch, _ = batch.answer(Server.start(plan, "abc").request)
    assert len(batch.state.releases) == 3  # made before the first number leaves, and kept
    assert batch.answer(Server.start(plan, "abc").request)[0].state.releases == batch.state.releases


def test_a_new_roster_counts_its_contributors_again():
    """Without it, those of the sites before would let a group of two sites, or of one, through."""
    sites = federation((60, 70, 80, 50))
    sites["d"] = without_group(sites["d"], 1)
    plan = plan_of(secure=True)
    transport = LocalTransport(clients(sites, identities(sites, agreed_without=("c",))))
    steps = conduct(ServerState(Server.start(plan, tuple(sites))), transport)
    state = next(state for state, _ in steps if state.server.number == 3)
    again = replace(ServerState(state.server.reopened({"c": "is gone"})), relay=state.relay)
    assert type(again.server.request).__name__ == "ContributorsRequest"
    left = {site: transport.sites[site] for site in "abd"}
    with pytest.raises(RunError, match="1: NOT MEASURED, since 2 of 3 sites"):
        list(conduct(again, LocalTransport(left)))


def test_a_site_that_steers_calibration_by_its_sums_does_so_for_ten_rounds_at_most():
    """It chooses where the others are summed next; there steep maps count their scores above a value."""
    plan, sites, rounds = plan_of(secure=True, calibration="beta"), federation([900] * 3), 0
    batch, server = ClientBatch.of(sites, plan), Server.start(plan, list(sites))
    while rounds == 0 or isinstance(server.phase, CurvatureExchange):
        batch, sums = batch.answer(server.request)
        total = sums.total()
        if isinstance(server.phase, CurvatureExchange):
            steered = total.sums.copy()
            steered[0] = 1e6 - 1e3 * rounds  # ever lower losses, and gradients that lead away
            steered[1] += 50.0 * (-1.0) ** rounds
            total, rounds = replace(total, sums=steered), rounds + 1
        server = server.take(total)
    assert rounds == 10
    assert isinstance(server.phase, TotalsExchange)
    assert np.isfinite(server.phase.request.maps.groups).all()


@pytest.mark.parametrize("folds", [2, 4, 6, 50])
def test_no_secure_plan_chooses_its_folds(folds):
    with pytest.raises(InputError, match=r"folds: got .* with secure sums, where there are 5"):
        plan_of(secure=True, folds=folds)
    assert plan_of(folds=folds).folds == folds


def test_sites_can_limit_folds_and_whether_labels_are_summed():
    plan = plan_of(calibration="beta", folds=50)
    assert "it has 50 folds" in SiteLimits(most_folds=5).objection(plan, "a")
    assert SiteLimits(most_folds=5).objection(plan_of(folds=50), "a") is None  # nothing is dealt
    assert "sums over labels" in SiteLimits(calibration=False).objection(plan, "a")
    assert SiteLimits(calibration=False).objection(plan_of(), "a") is None


def test_under_secure_sums_nothing_is_pooled():
    assert make_plan(groups=[0, 1], secure=True).pooling == "none"
    with pytest.raises(InputError, match="pooling: 'full' cannot be combined with secure sums"):
        make_plan(groups=[0, 1], secure=True, pooling="full")


@pytest.mark.parametrize("privacy", [None, Privacy(1.0, 1e-6)])
def test_what_secure_sums_do_not_hide_is_said_before_people_agree_and_with_the_result(privacy):
    plan = plan_of(secure=True, privacy=privacy)
    result = run(plan, federation((260, 250, 240))).result
    for said in (plan_sentences(plan), _run_sentences(result)):
        hidden = " ".join(sentence for label, sentence in said if label == "Not hidden")
        assert "which groups it has enough people of" in hidden
        assert ("only differential privacy ends that" in hidden) == (privacy is None)
    assert "Not hidden" not in dict(plan_sentences(plan_of(privacy=privacy)))


CHANGES = {
    "run": "other",
    "groups": [0, 1, 2],
    "notion": "equalized_odds",
    "local_tolerance": 0.2,
    "global_tolerance": 0.2,
    "require": ["accepted <= 0.5 overall"],
    "costs": (1, 3),
    "site_costs": {"a": (1, 2)},
    "calibration": "platt",
    "folds": 7,
    "random_state": 3,
    "optimality_gap": 1e-3,
    "trials": 5,
    "solver": Algorithm1(step=0.1),
    "rounds": 9,
    "quorum": 3,
    "secure": True,
    "privacy": Privacy(1.0, 1e-6),
    "smallest_cell": 3,
    "pooling": "none",
}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_a_plan_can_choose_is_shown_to_those_who_answer_it(name):
    usual = {"calibration": "beta", "pooling": "auto", "run": "r"}
    usual |= {"solver": Algorithm1()} if name == "solver" else {}
    change = {name: CHANGES[name], **({"calibration": "none"} if name == "privacy" else {})}
    shown = []
    for settings in (usual, {**usual, **change}):
        lines = dict(plan_sentences(plan_of(**settings), Members.of("abc", named=True)))
        shown.append({label: line for label, line in lines.items() if label != "Plan" or name == "run"})
    assert shown[0] != shown[1]


def test_the_test_before_names_every_part_of_a_plan():
    as_given = {"looked_at": "notion", "rates": "require"}
    assert {as_given.get(field.name, field.name) for field in fields(Plan)} <= set(CHANGES)
