"""The forms of instructions to a model that are known, by what they are after.

Over folded text: no accents, no capitals. Each has a bounded reach, and none can take more than linear time.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

_ACCENTS = re.compile("[\u0300-\u036f]")


def without_accents(text: str) -> str:
    """Return `text` without the accents of Latin, Greek and Cyrillic letters."""
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))


OVERRIDES: Final = "tells a model to disregard its instructions"
POSES: Final = "poses as system text, or as part of a prompt"
ROLE: Final = "gives a model another role"
DISCLOSES: Final = "asks for secrets, for a prompt, or for what others said"
MEMORY: Final = "commands the memory"
TOOL: Final = "calls a tool"
SENDS: Final = "has data sent elsewhere"
ANSWERS: Final = "dictates what is answered"
HIDES: Final = "has hidden text decoded and followed"

REASONS: Final = (OVERRIDES, POSES, ROLE, DISCLOSES, MEMORY, TOOL, SENDS, ANSWERS, HIDES)
"""Every suspicion there is."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A form of instruction."""

    reason: str
    pattern: re.Pattern[str]
    command: bool = False
    """Whether the match must be a command: at the beginning of a sentence, or after words that lead to one."""
    foreign: bool = False
    """Whether it is a wish that a user may have, and nobody else."""


def rule(reason: str, pattern: str, *, command: bool = False, foreign: bool = False) -> Rule:
    """Return a rule; in its pattern `~` is some words at most, and blanks are only for reading."""
    pattern = pattern.replace("~~", r"(?:\W++\w++){0,6}?\W++").replace("~", r"(?:\W++\w++){0,3}?\W++")
    return Rule(reason, re.compile(without_accents(pattern), re.VERBOSE), command, foreign)


_ENGLISH: Final = (
    rule(
        OVERRIDES,
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass(?:ing)?|overlook|neglect"
        r"|discard|(?:do\ not|don't|never|stop)\ (?:follow(?:ing)?|obey(?:ing)?|listen(?:ing)?\ to))"
        r"~(?:previous|prior|preceding|above|earlier|former|original|initial|existing|system|hidden"
        r"|developer)(?:\W+\w+)?\W+(?:instruction|prompt|directive|guideline|command|rule|message"
        r"|programming|restriction|safety)",
    ),
    rule(
        OVERRIDES,
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass(?:ing)?)\W+(?:(?:about|all"
        r"|any|every|of|each)\W+){0,3}(?:your|all|any)\W+(?:\w+\W+)?(?:instructions"
        r"|directives|guidelines|programming|system\W+prompt|safety\W+(?:rules|filters|guidelines))\b",
        command=True,
    ),
    rule(
        OVERRIDES,
        r"\b(?:ignore|disregard|forget)\W+(?:everything|anything|all|whatever|what)\W+(?:that\W+)?(?:(?:is"
        r"|was|were|has\W+been|came|comes)\W+)?(?:(?:said|written|told|stated)\W+)?(?:above|before\W+this"
        r"|prior\W+to\W+this|you\W+(?:were|have\W+been|'ve\W+been)\W+(?:told|instructed|given))\b",
    ),
    rule(
        OVERRIDES,
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass(?:ing)?)\W+(?:all\W+)?"
        r"(?:the|these|those|your|any|my)\W+(?:\w+\W+){0,2}?(?:instructions?|directions|directives|guidelines"
        r"|prompts?|rules|commands|messages?|text)\W+(?:(?:given|written|stated|from|that\W+came)\W+)?"
        r"(?:above|before\W+this|earlier|previously|so\W+far|you\W+(?:were|have\W+been)\W+given)\b",
    ),
    rule(
        ROLE,
        r"\byou(?:\W+are|'re)\W+(?:no\W+longer|not)\W+(?:an?|the)?\W*(?:\w+\W+){0,2}(?:memory|assistant|ai"
        r"|language\W+model|model|bot|chatbot)\b",
    ),
    rule(
        ROLE,
        r"\b(?:you(?:\W+are|'re)\W+(?:now\W+)?|act\W+as\W+|behave\W+(?:as|like)\W+|pretend\W+to\W+be\W+"
        r"|become\W+)(?:(?:an?|the|if\W+you\W+were)\W+)*(?:dan|jailbroken|unrestricted|uncensored"
        r"|unfiltered|do\W+anything\W+now)\b",
    ),
    rule(
        ROLE,
        r"\b(?:you(?:\W+are|'re)\W+(?:now\W+)?in|enter|activate|switch\W+to|enable)\W+(?:dan|god|jailbreak"
        r"|sudo|unrestricted|admin|root)\W+mode\b",
    ),
    rule(
        ROLE,
        r"\b(?:pretend|act|imagine|role-?play|respond|answer|reply|behave|operate|proceed|comply|you\W+are)"
        r"~~(?:no|without|free\W+of|free\W+from|not\W+bound\W+by)\W+(?:any\W+|all\W+|the\W+)?(?:\w+"
        r"\W+)?(?:content\W+polic(?:y|ies)|restrictions?|limitations|filters?|guardrails|censorship|safety"
        r"|ethical\W+\w+|limits)\b",
    ),
    rule(
        OVERRIDES,
        r"\b(?:safety|content|moderation)\W+(?:protocols?|filters?|guidelines|checks?|polic(?:y|ies)"
        r"|restrictions?|rules)~(?:disabled|off|lifted|suspended|removed|(?:not|n't)\W+(?:apply|meant"
        r"|valid))\b|\b(?:disable|skip|bypass|turn\W+off|suspend|drop)\W+(?:\w+\W+){0,2}?(?:safety|content"
        r"|moderation)\W+(?:protocols?|filters?|guidelines|checks?|polic(?:y|ies)|restrictions?|rules)\b",
    ),
    rule(ROLE, r"\byou\W+(?:now\W+)?have\W+no\W+(?:\w+\W+)?(?:restrictions|filters|guidelines|content\W+policy)\b"),
    rule(ROLE, r"\bfrom\W+now\W+on\W+you(?:\W+are|'re|\W+will\W+(?:act|behave|respond|obey))\b", command=True),
    rule(
        ROLE,
        r"\byour\W+(?:new|real|true|only)\W+(?:instructions?|objective|directive|system\W+prompt|task)"
        r"\W+(?:is|are)\b",
    ),
    rule(
        DISCLOSES,
        r"\b(?:reveal|show|print|output|repeat|display|list|tell|give|expose|dump|leak|share|disclose"
        r"|return|write|recite|translate|summari[sz]e|what\W+(?:is|are|was|were|does))~(?:your|the"
        r"\W+assistant's|the\W+model's|its|the)\W+(?:full\W+|entire\W+|exact\W+|complete\W+|secret\W+"
        r"|hidden\W+|initial\W+|original\W+){0,2}(?:system\W+(?:prompt|message|instructions)|(?:hidden"
        r"|initial|original|secret|developer|base|core|operating)\W+(?:prompt|instructions|message))",
    ),
    rule(
        DISCLOSES,
        r"\b(?:reveal|show|print|output|display|list|tell|give|expose|dump|leak|share|disclose|return"
        r"|repeat|send)~~(?:memor(?:y|ies)|secrets?|conversations?|chats?|private\W+\w+|personal\W+\w+)"
        r"\W+(?:stored\W+)?(?:of|about|from|for|belonging\W+to)\W+(?:(?:all|any|every|the|each)"
        r"\W+)*(?:other|another|different|all|every|each)\W+(?:\w+\W+)?(?:users?|people|persons?|customers?"
        r"|accounts?|tenants?)\b",
    ),
    rule(
        DISCLOSES,
        r"\b(?:reveal|show|print|output|display|list|tell|give|expose|dump|leak|share|disclose|return"
        r"|repeat)~~(?:other|another|different|all|every)\W+(?:users?|customers?|tenants?)(?:'s?|s)?"
        r"\W+(?:\w+\W+)?(?:memor(?:y|ies)|secrets?|conversations?|chats?|passwords?)\b",
    ),
    rule(
        DISCLOSES,
        r"\b(?:reveal|print|output|expose|dump|leak|disclose|tell\W+(?:me|us)|give\W+(?:me|us))~(?:your"
        r"|the\W+user's|users'?|the\W+admin\w*(?:'s)?|the\W+system(?:'s)?|all|any|stored)\W+(?:\w+"
        r"\W+)?(?:passwords?|passphrases?|api\W+keys?|access\W+tokens?|secret\W+keys?|credentials)\b",
        command=True,
    ),
    rule(
        DISCLOSES,
        r"\b(?:repeat|print|output|copy|echo|recite|show)\W+(?:back\W+)?(?:everything|all|the)\W+(?:\w+"
        r"\W+)?(?:(?:words?|text|message|content|prompt|tokens?|lines?)\W+)?(?:above|before\W+this)\b",
        command=True,
    ),
    rule(
        DISCLOSES,
        r"\b(?:reveal|show|print|output|repeat|tell|give|add|include|summari[sz]e|write|summary\W+of)~"
        r"~(?:instructions|prompt|guidelines|directives)\W+(?:that\W+)?you\W+(?:were\W+given|have\W+been"
        r"\W+given|received)\b",
    ),
    rule(
        DISCLOSES,
        r"\b(?:administrator|admin|root|superuser|master)(?:'s)?\W+(?:account\W+)?(?:password|passphrase"
        r"|credentials?)\W+(?:is|are|was)\b",
    ),
    rule(
        MEMORY,
        r"\b(?:forget|delete|erase|wipe|purge|remove|clear|drop|destroy|overwrite|reset)\W+(?:(?:all|every"
        r"|everything|any|of|in|from|the|out|earlier|previous)\W+){0,4}(?:your|stored|saved|long-?\W?term"
        r"|(?:this|the|that)\W+user's|(?:the|this|that)\W+assistant's)\W+(?:\w+\W+)?(?:memor(?:y|ies)|facts"
        r"|records|knowledge|profile)\b",
    ),
    rule(
        MEMORY,
        r"\b(?:delete|erase|wipe|purge|clear|drop|destroy)\W+(?:(?:all|every|the|of|earlier|previous"
        r"|other)\W+){1,3}(?:memories|memory|memory\W+store|facts)\b(?!\W+(?:of|from|that|i|we|you|she|he"
        r"|they|with)\b)",
        command=True,
    ),
    rule(
        MEMORY,
        r"\b(?:forget|delete|erase|wipe|purge|remove)\W+(?:everything|all|anything|all\W+\w+|the\W+\w+)"
        r"\W+(?:you\W+(?:know|have)\W+|stored\W+|known\W+|remembered\W+|saved\W+)?(?:about|of|on|for"
        r"|from)\W+(?:this|the|that|all|any|other|every)\W+(?:\w+\W+)?users?\b",
    ),
    rule(
        MEMORY,
        r"\b(?:forget|delete|erase|wipe)\W+(?:everything|all|anything)\W+(?:that\W+)?you\W+(?:know|remember"
        r"|(?:have\W+|'ve\W+)?(?:stored|learned|learnt|saved|remembered))\b",
        command=True,
    ),
    rule(
        MEMORY,
        r"\b(?:mark|flag|treat|label|set|consider|tag|supersede)\W+(?:(?:all|every|each|any|of|the|earlier"
        r"|previous|other|stored|existing|prior|user's)\W+){1,4}(?:memor(?:y|ies)|facts?|records?"
        r"|entries)\W+(?:as|to|with)\b",
    ),
    rule(
        MEMORY,
        r"\b(?:reply|respond|answer|return|output|write|with|produce)\W+(?:\w+\W+){0,3}?(?:(?:empty"
        r"|blank)\W+(?:\w+\W+)?(?:list|array|set)|no|zero)\W+(?:list\W+)?(?:of\W+)?(?:memories|facts)\b",
    ),
    rule(
        HIDES,
        r"\b(?:decode|decrypt|unscramble|deobfuscate)\b[^\n]{0,80}?\b(?:follow|obey|execute|run|do"
        r"\W+(?:exactly\W+)?what|instructions?)\b",
    ),
    rule(
        MEMORY,
        r"\b(?:remember|store|save|memori[sz]e|record|add|write|insert|put)~~(?:in|into|to|as)\W+(?:your"
        r"|the|long-?\W?term|permanent|persistent)\W+(?:\w+\W+){0,2}?memor(?:y|ies)\b",
        command=True,
        foreign=True,
    ),
    rule(
        TOOL,
        r'"(?:tool_calls?|function_call|tool_use|tool_input|action_input)"\s*:'
        r'|"name"\s*:\s*"[\w.\-]{1,80}"\s*,\s*"(?:arguments|parameters|input)"\s*:\s*[{"\[]|"(?:tool'
        r'|function)"\s*:\s*"[\w.\-]{1,80}"\s*,\s*"(?:arguments|args|parameters|input)"\s*:'
        r"|<\s?/?\s?(?:tool_calls?|function_calls?|tool_use|tool_response|function=)",
    ),
    rule(
        TOOL,
        r"\b(?:call|invoke|execute|run|use)\W+(?:the\W+)?(?:send|delete|transfer|drop|remove|purge|forward"
        r"|wipe)_\w+",
        foreign=True,
    ),
    rule(
        TOOL,
        r"\b(?:call|invoke|execute|run|use|trigger)\W+(?:the\W+|your\W+|this\W+)?(?:tool|plugin|skill)s?"
        r"\W+(?:named\W+|called\W+)?(?:\w*_\w+|\w+\()|\b(?:call|invoke|execute|run|trigger)\W+(?:the\W+"
        r"|your\W+)?\w*_\w+`?\W+tool\b",
    ),
    rule(
        SENDS,
        r"\b(?:send|post|forward|upload|transmit|submit|exfiltrate|leak|e-?mail|copy|append|report|deliver)"
        r"~~(?:conversations?|chats?|history|memor(?:y|ies)|prompts?|context|messages|secrets?|passwords"
        r"|credentials|them|everything|transcripts?|database|api\W+keys?|(?:user|personal|private|customer"
        r"|client)\W+(?:data|list|emails?|records))(?:\W++\w++){0,6}?\W++(?:to|at|via|on)\W+(?:\w+"
        r"\W+){0,2}?(?:https?:|www\.|[\w.+\-]{1,64}@[\w\-]{1,64}\.|(?:an?|the|my|this)\W+(?:webhook|url"
        r"|server|endpoint)\b)",
    ),
    rule(
        ANSWERS,
        r"\b(?:always|only|from\W+now\W+on|no\W+matter\W+what(?:\W+\w+){0,4}?|whatever\W+(?:\w+"
        r"\W+){0,3}?asks?|in\W+(?:every|each|all)(?:\W+future)?\W+(?:answers?|repl(?:y|ies)|responses?))"
        r"\W+(?:(?:you|must|should|will|always|only|just|to)\W+){0,3}(?:answer|reply|respond)\W++(?:(?:me"
        r"|us|him|her|them|back|everything|questions?|all|every|any|my|their|his|with|the|same|single"
        r"|word)\W++){0,3}(?!(?:in|as|using|by|like|without|to|when|where|if|unless|and|or|but|for|at|from"
        r"|on|after|before|about|via|through|directly|briefly|concisely|politely|formally|informally"
        r"|shortly|quickly|slowly|clearly|honestly|truthfully|kindly|please|first|me|my|with|in|an?|the"
        r"|your|metric|short|brief|long|full|detailed|step|numbered|bullet|plain|simple|complete|\w+ly)\b)\w",
        command=True,
    ),
    rule(
        ANSWERS,
        r"\b(?:always|only|from\W+now\W+on|no\W+matter\W+what(?:\W+\w+){0,4}?)\W+(?:(?:you|must|should|will"
        r"|always|only|just)\W+){0,3}(?:recommend|promote|advertise|endorse|insist|claim)\W++\w",
        command=True,
    ),
    rule(
        ANSWERS,
        r"\b(?:answer|reply|respond)\W+(?:only\W+|just\W+|exactly\W+|always\W+)(?:with\W+)?(?:the"
        r"\W+(?:words?|text|phrase)\W+)?[\"'`]",
        command=True,
    ),
    rule(
        ANSWERS,
        r"\b(?:never|do\W+not|don't)\W+(?:tell|mention|inform|warn|reveal|say|disclose|show)~~the\W+users?\b",
        command=True,
    ),
    rule(
        ANSWERS,
        r"\b(?:from\W+now\W+on|henceforth|in\W+(?:all\W+)?future\W+(?:answers|replies|responses"
        r"|conversations))\W+(?:(?:you|please|must|should|will|always|only)\W+){0,3}(?:answer|reply|respond"
        r"|recommend|say|speak|call|address|refer|write|use|mention)\b",
        foreign=True,
    ),
    rule(
        ANSWERS,
        r"\b(?:always|never)\W+(?:answer|reply|respond|recommend|mention|tell|address|call|inform|remind)"
        r"~(?:(?:the|this|any|every|all)\W+)?(?:users?|questions?)\b",
        command=True,
        foreign=True,
    ),
)

_ADDRESSED: Final = (
    # What in the text of somebody else speaks to whoever reads it by machine.
    rule(
        POSES,
        r"\b(?:note|message|instructions?|important|attention|notice|reminder|request)\W+(?:to|for)"
        r"\W+(?:the\W+|any\W+|all\W+|every\W+)?(?:ai|llms?|bots?|assistants?|agents?|chatbots?|language"
        r"\W+models?|models?)\b",
        foreign=True,
    ),
    rule(
        POSES,
        r"\bif\W+you(?:\W+are|'re)\W+an?\W+(?:ai|llm|bot|chatbot|(?:large\W+)?language\W+model|(?:ai"
        r"\W+)?(?:assistant|agent|model))\b|\bfor\W+ai\W+(?:\w+\W+)?(?:agents|assistants|models"
        r"|tools)\s?[):]",
        foreign=True,
    ),
    rule(
        POSES,
        r"\bwhen(?:ever)?\W+you\W+(?:read|process|summari[sz]e|see|parse|index|ingest)\W+this\b",
        foreign=True,
    ),
    rule(
        ANSWERS,
        r"\b(?:must|should|always|shall|to|please|has\W+to)\W+(?:be\W+)?(?:include|append|add|insert"
        r"|mention|show|repeat|output|end|begin|start)\w*~~(?:every|any|each|all|your|the\W+end\W+of)"
        r"\W+(?:\w+\W+){0,2}?(?:repl(?:y|ies)|responses?|summar(?:y|ies)|reports?|answers?|outputs?)\b",
        foreign=True,
    ),
    rule(
        OVERRIDES,
        r"\b(?:skip|bypass|waive)\W+(?:all\W+|any\W+|the\W+|every\W+)(?:\w+\W+)?(?:checks|confirmations?"
        r"|approvals?|verifications?)\b|\bwithout\W+(?:asking|confirming)\W+(?:again|for\W+(?:confirmation"
        r"|permission|approval))\b",
        foreign=True,
    ),
    rule(
        POSES,
        r"\bas\W+the\W+assistant\W+i(?:'ve|\W+have)\W+(?:already\W+)?(?:reasoned|concluded|determined"
        r"|decided|verified)\b",
    ),
)

_STRUCTURE: Final = (
    # Line starts and marks that stand for a role or a part of a prompt, in any language.
    rule(
        POSES,
        r"(?:^|\n)[\s\[\](){}<>*\#_\-=|`\"']{0,12}(?:system|developer)(?:\ (?:message|prompt|note"
        r"|instructions?|override|notice|update|alert|command))[\s\]\)}>*\#_=|`\"']{0,12}:",
    ),
    rule(POSES, r"\bsystem\ (?:message|prompt|note|override|instructions?)\s?:"),
    rule(POSES, r"(?:^|\n|[.!?]\s)(?:\w+\ ){1,2}system\ (?:notice|update|alert)\s?:"),
    rule(
        POSES,
        r"\bsystem(?:hinweis|meldung|nachricht|anweisung|notiz)\s?:|\b(?:note|message|nota|mensaje|mensagem"
        r"|messaggio|aviso|avis)\W+(?:d[eiu]l?\W+)?(?:systeme|sistema)\s?:",
    ),
    rule(POSES, r"(?:^|\n)[^\S\n]{0,20}[\[(<*\#]{0,3}system[\])>*]{0,3}\s?:\s"),
    rule(
        POSES,
        r"<\s?[/\uff0f]?\s{0,3}(?:system|sys|conversation|evidence|memories|system_?prompt|system-?message"
        r"|assistant_response|im_start|im_end)\s{0,3}/?>",
    ),
    rule(
        POSES,
        r"<\s?\|\s?\w{1,40}\s?\|>|\[\s?/?inst\]|<\s?<\s?/?sys>>|<\s?(?:start|end)_of_turn>"
        r"|<\s?/?dualmem-memories",
    ),
    rule(POSES, r"(?:^|\n)[^\S\n]{0,20}human\s?:[^\n]{0,500}(?:\n[^\n]{0,500}){0,4}?\n[^\S\n]{0,20}assistant\s?:"),
    rule(POSES, r'"(?:memories|decisions)"\s?:\s?\[\s?\{\s?"(?:turns|new|quote|text)"'),
    rule(
        POSES,
        r"(?:^|\n|[.!?>]\s)[^\S\n]{0,20}(?:new|updated|revised|real"
        r"|additional)\ (?:system\ )?(?:instructions|directives|system\ prompt)\s?:",
    ),
    rule(
        POSES,
        r"(?:^|\n)[^\S\n]{0,20}(?:begin|end|start|stop)\ (?:of\ )?(?:system|hidden|admin)\ (?:prompt"
        r"|message|instructions)",
    ),
)

RULES: Final = (*_ENGLISH, *_ADDRESSED, *_STRUCTURE)
