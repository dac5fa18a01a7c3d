"""Money and other amounts: sums, shares, balances, and the payments that settle them. Exact, and in code."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

from dualmem.records import LedgerRecord
from dualmem.retrieval.text import tokens

_CENT: Final = Decimal("0.01")
_UNITS: Final = {
    "€": "EUR", "euro": "EUR", "euros": "EUR", "eur": "EUR", "$": "USD", "dollar": "USD", "dollars": "USD",
    "usd": "USD", "us$": "USD", "£": "GBP", "pound": "GBP", "pounds": "GBP", "gbp": "GBP", "¥": "JPY", "yen": "JPY",
    "jpy": "JPY",
    "元": "CNY", "yuan": "CNY", "rmb": "CNY", "cny": "CNY", "chf": "CHF", "franken": "CHF", "₹": "INR", "rupees": "INR",
}  # fmt: skip
_MONEY: Final = frozenset({"payment", "transfer", "debt"})
_DIGITS = re.compile(r"\d[\d.,'\u00a0\u202f ]*\d|\d")
_MOST_GROUPS: Final = 12
"""Things whose sums are given one by one; with more, they are only in the total."""

Balances = dict[str, dict[str, Fraction]]
"""What each party is owed (above 0) or owes (below 0), by unit."""


def unit_of(text: str) -> str:
    """Return a unit in one spelling: a currency's code, else the word as it is, in the singular where that is easy."""
    word = text.strip().casefold()
    known = _UNITS.get(word)
    if known is not None:
        return known
    return word.removesuffix("s") if word.isascii() and len(word) > len("gas") else word


def amount_of(text: str) -> Decimal | None:
    """Return the number in a text such as "€1,200.50", "1.200,50" or "179 EUR"; None where there is not just one."""
    found = _DIGITS.findall(text.strip())
    if len(found) != 1:
        return None
    digits = re.sub(r"['\u00a0\u202f ]", "", found[0])
    separators = re.sub(r"\d", "", digits)
    if separators:
        last = separators[-1]
        whole, _, rest = digits.rpartition(last)
        grouped = len(rest) == len("000") and (separators.count(last) > 1 or len(set(separators)) == 1)
        digits = re.sub("[.,]", "", digits) if grouped else f"{re.sub('[.,]', '', whole)}.{rest}"
    try:
        value = Decimal(digits)
    except InvalidOperation:
        return None
    return -value if re.match(r"\s*[-−]\s*[€$£¥]?\s*\d", text) else value


def stands_in(amount: Decimal, text: str) -> bool:
    """Whether an amount is among the numbers of a text; a text without digits may say it in words."""
    found = [amount_of(piece) for piece in _DIGITS.findall(text)]
    return not found or amount in found or -amount in found


def balances(records: Sequence[LedgerRecord]) -> Balances:
    """Return the balance of every party.

    A payment is the payer's to get back from those who share it, in equal parts. A transfer lessens what its sender
    owes, a debt adds to it. A payment that all share counts for everyone who has a part in any entry.
    """
    names: dict[str, str] = {}
    moved = [record for record in records if record.kind in _MONEY and record.amount is not None and record.who]
    for record in moved:
        for name in (record.who, *record.others):
            names.setdefault(name.casefold(), name)
    found: Balances = defaultdict(lambda: dict.fromkeys(names.values(), Fraction(0)))
    for record in moved:
        amount, unit = Fraction(record.amount or 0), record.unit
        who = names[record.who.casefold()]
        others = list(dict.fromkeys(names[name.casefold()] for name in record.others))
        if record.kind == "payment":
            sharers = list(names.values()) if record.everyone else others
            for name in sharers:
                found[unit][name] -= amount / len(sharers)
            if sharers:
                found[unit][who] += amount
        elif others:
            sign = 1 if record.kind == "transfer" else -1
            for name in others:
                found[unit][who] += sign * amount / len(others)
                found[unit][name] -= sign * amount / len(others)
    return found


def settle(owed: Mapping[str, Fraction]) -> list[tuple[str, str, Fraction]]:
    """Return payments (from, to, amount) that bring all balances to zero, the largest first.

    The one who owes most pays the one who is owed most, until nothing is left; with n parties that takes at most
    n - 1 payments.
    """
    left = {name: amount for name, amount in owed.items() if amount}
    payments = []
    while left:
        debtor = min(left, key=lambda name: (left[name], name))
        creditor = max(left, key=lambda name: (left[name], name))
        amount = min(-left[debtor], left[creditor])
        if amount <= 0:
            break
        payments.append((debtor, creditor, amount))
        for name, change in ((debtor, amount), (creditor, -amount)):
            left[name] += change
            if not left[name]:
                del left[name]
    return payments


def written(amount: Fraction | Decimal, unit: str = "") -> str:
    """Return an amount in at most two decimals."""
    exact = Decimal(amount.numerator) / Decimal(amount.denominator) if isinstance(amount, Fraction) else amount
    shown = exact.quantize(_CENT, ROUND_HALF_UP)
    text = f"{shown.quantize(Decimal(1)):f}" if shown == shown.to_integral_value() else f"{shown:f}"
    return f"{text} {unit}".strip()


def account_lines(records: Sequence[LedgerRecord]) -> list[str]:
    """Return sums by unit, person and thing, then balances and the payments that settle them."""
    return [*_sum_lines(records), *_balance_lines(records)]


def _sum_lines(records: Sequence[LedgerRecord]) -> list[str]:
    lines = []
    for kind, noun in (("payment", "paid"), ("amount", "amounts")):
        by_unit: dict[str, list[LedgerRecord]] = defaultdict(list)
        for record in records:
            if record.kind == kind and record.amount is not None:
                by_unit[record.unit].append(record)
        for unit, group in by_unit.items():
            if len(group) == 1 and kind == "amount":
                continue
            lines.append(f"sum of {len(group)} {noun}: {_sum(group, unit)}, on average {_mean(group, unit)}")
            by_person = _split(group, lambda record: record.who)
            if len(by_person) > 1:
                lines.append(f"{noun} by person: {_each(by_person, unit)}")
            by_thing = _split(group, lambda record: " ".join(sorted(tokens(record.what))))
            if 1 < len(by_thing) <= _MOST_GROUPS:
                named = {parts[0].what: parts for parts in by_thing.values()}
                lines.append(f"{noun} by thing: {_each(named, unit)}")
    return lines


def _balance_lines(records: Sequence[LedgerRecord]) -> list[str]:
    lines = []
    for unit, owed in balances(records).items():
        if not any(owed.values()):
            if owed:
                lines.append(f"all balances in {unit or 'the ledger'} are zero: nobody owes anything")
            continue
        lines.append(f"balances: {', '.join(_standing(name, amount, unit) for name, amount in owed.items())}")
        payments = (f"{debtor} pays {written(amount, unit)} to {creditor}" for debtor, creditor, amount in settle(owed))
        lines.append(f"settled by: {', '.join(payments)}")
    return lines


def _standing(name: str, amount: Fraction, unit: str) -> str:
    if not amount:
        return f"{name} is even"
    return f"{name} {'is owed' if amount > 0 else 'owes'} {written(abs(amount), unit)}"


def _sum(group: Sequence[LedgerRecord], unit: str) -> str:
    return written(sum((record.amount or Decimal(0) for record in group), Decimal(0)), unit)


def _mean(group: Sequence[LedgerRecord], unit: str) -> str:
    total = sum((Fraction(record.amount or 0) for record in group), Fraction(0))
    return written(total / len(group), unit)


def _split(group: Sequence[LedgerRecord], key: Callable[[LedgerRecord], str]) -> dict[str, list[LedgerRecord]]:
    parts: dict[str, list[LedgerRecord]] = defaultdict(list)
    for record in group:
        name = key(record)
        if name:
            parts[name].append(record)
    return parts


def _each(parts: Mapping[str, Sequence[LedgerRecord]], unit: str) -> str:
    return ", ".join(f"{name} {_sum(group, unit)}" for name, group in parts.items())
