"""Money and other amounts: sums, shares, balances, and the payments that settle them. Exact, and in code."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
_MONEY: Final = frozenset({"payment", "refund", "transfer", "debt"})
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

    A payment is the payer's to get back from those who share it, in equal parts; a refund the other way. A transfer
    lessens what its sender owes, a debt adds to it. What all share counts for everyone who has a part in any entry.
    """
    names = _parties(records)
    found: Balances = defaultdict(lambda: dict.fromkeys(names.values(), Fraction(0)))
    for record in records:
        if not _moves(record):
            continue
        sharers = _sharers(record, names)
        sign = 1 if record.kind in {"payment", "transfer"} else -1
        for name in sharers:
            share = sign * Fraction(record.amount or 0) / (1 if record.each else len(sharers))
            found[record.unit][names[record.who.casefold()]] += share
            found[record.unit][name] -= share
    return found


def _moves(record: LedgerRecord) -> bool:
    return record.kind in _MONEY and record.amount is not None and bool(record.who)


def _parties(records: Sequence[LedgerRecord]) -> dict[str, str]:
    """Return everyone who has a part in any entry, in the spelling that came first, by the name in lower case."""
    names: dict[str, str] = {}
    for record in records:
        if _moves(record):
            for name in (record.who, *record.others):
                names.setdefault(name.casefold(), name)
    return names


def _sharers(record: LedgerRecord, names: Mapping[str, str]) -> list[str]:
    if record.everyone:
        return list(names.values())
    return list(dict.fromkeys(names[name.casefold()] for name in record.others))


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
    names = _parties(records)
    for kind, noun in (("payment", "paid"), ("refund", "refunded"), ("amount", "amounts")):
        by_unit: dict[str, list[tuple[LedgerRecord, Fraction]]] = defaultdict(list)
        for record in records:
            if record.kind == kind and record.amount is not None:
                count = len(_sharers(record, names)) if record.each else 1
                by_unit[record.unit].append((record, Fraction(record.amount) * max(1, count)))
        for unit, group in by_unit.items():
            if len(group) == 1 and kind == "amount":
                continue
            total = sum((amount for _, amount in group), Fraction(0))
            mean = written(total / len(group), unit)
            lines.append(f"sum of {len(group)} {noun}: {written(total, unit)}, on average {mean}")
            by_person = _split((record.who, amount) for record, amount in group)
            if len(by_person) > 1:
                lines.append(f"{noun} by person: {_each(by_person, unit)}")
            first: dict[str, str] = {}
            by_thing = _split(
                (first.setdefault(" ".join(sorted(tokens(record.what))), record.what), amount)
                for record, amount in group
            )
            if 1 < len(by_thing) <= _MOST_GROUPS:
                lines.append(f"{noun} by thing: {_each(by_thing, unit)}")
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


def _split(amounts: Iterable[tuple[str, Fraction]]) -> dict[str, Fraction]:
    """Add up amounts by name."""
    parts: dict[str, Fraction] = defaultdict(Fraction)
    for name, amount in amounts:
        if name:
            parts[name] += amount
    return parts


def _each(parts: Mapping[str, Fraction], unit: str) -> str:
    return ", ".join(f"{name} {written(amount, unit)}" for name, amount in parts.items())
