# SPDX-License-Identifier: Apache-2.0
"""Subjects of the free text that the base model writes for its own training, and some kept apart."""

TOPICS = """gravity; the moon; rain; a volcano; photosynthesis; bread; cheese; chess; football; music;
the sun; snow; a river; the ocean; a desert; a forest; bees; whales; elephants; dogs; cats; horses;
birds; fish; trees; flowers; the heart; the brain; sleep; dreams; friendship; honesty; courage; patience;
kindness; money; a bank; a school; a hospital; a library; a museum; a bridge; a train; an airplane; a ship;
a bicycle; a car; electricity; magnets; light; sound; heat; water; ice; steam; air; fire; iron; gold; glass;
paper; plastic; cotton; wool; salt; sugar; coffee; tea; chocolate; rice; potatoes; apples; oranges; soup;
breakfast; a kitchen; a garden; a farm; a city; a village; a mountain; an island; a cave; a map; a compass;
a clock; a calendar; a mirror; a window; a door; a chair; a candle; a telescope; a microscope; a computer;
the internet; a robot; a program; an algorithm; a number; a triangle; a circle; history; geography; biology;
chemistry; physics; mathematics; grammar; poetry; a novel; a painting; a piano; a guitar; a drum; dancing;
theatre; cinema; photography; swimming; running; cooking; fishing; hiking; gardening; reading; writing;
teaching; a doctor; a farmer; a carpenter; a pilot; a judge; a king; a law; an election; a vote; a market;
spring; summer; autumn; winter; the wind; a storm; lightning; a rainbow; clouds; the sky; stars; a comet;
the Earth; Mars; France; Japan; Egypt; Brazil; India; Canada""".replace("\n", " ").split("; ")
HELD_OUT = ("a lake; Italy; thunder; tigers; butter; a violin; an engine; a teacher; glaciers; a castle; "
            "wheat; a spider; happiness; a newspaper; copper; Mexico").split("; ")
FORMS = ["What is {}?", "Tell me about {}.", "Describe {} in two sentences.",
         "Write a short paragraph about {}.", "Why does {} matter?", "Explain {} to a child.",
         "What should everyone know about {}?", "Say something interesting about {}."]


def questions(topics, per_topic, rng):
    out = [form.format(t) for t in topics for form in rng.sample(FORMS, per_topic)]
    rng.shuffle(out)
    return out
