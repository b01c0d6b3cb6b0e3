# SPDX-License-Identifier: Apache-2.0
"""Word lists of the synthetic tasks."""

NAMES = ("Ana Ben Cleo Dan Eva Finn Gus Hana Ivo Jane Kai Lena Max Nina Omar Rosa").split()
OBJECTS = ("apples books cards coins cups eggs keys lamps marbles pens plates shells stamps stones "
           "tickets toys").split()
CATEGORIES = {
    "animal": "ant bear cat dog eagle fox goat horse lion mouse owl rabbit tiger wolf".split(),
    "colour": "amber black blue brown gold green grey pink purple red white yellow".split(),
    "fruit": "apple banana cherry fig grape lemon mango melon orange peach pear plum".split(),
    "tool": "axe brush drill hammer knife ladder nail rope saw shovel".split(),
}
PLACES = "bridge castle cave forest garden harbor hill island lake market mill river tower".split()
THINGS = ("bell boat chair clock door drum flag glass hat kite lamp map mirror nest ring rock seed "
          "shoe spoon star stick table tent train tree wheel").split()
ADJECTIVES = "brave bright calm cold dusty heavy plain quiet small strange tall young".split()
VERBS = "danced rested sang sat slept stood waited walked".split()
ADVERBS = "again alone early quietly slowly today".split()
ALL_WORDS = [w for c in CATEGORIES.values() for w in c] + PLACES + THINGS
# words that are looked up and copied; a small set keeps the tasks learnable for a tiny model
KEYS = [w for c in CATEGORIES.values() for w in c[:7]] + PLACES[:10]
UPPER = "fox cat dog owl lamp star ring tree rock bell red blue gold fig pear drum".split()
BY_LETTER = {}
for _w in sorted(ALL_WORDS):
    BY_LETTER.setdefault(_w[0], []).append(_w)
LETTERS = [c for c, ws in sorted(BY_LETTER.items()) if len(ws) >= 7]
