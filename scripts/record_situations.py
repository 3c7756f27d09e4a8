"""What the records of scripts/make_records.py are made of: situations, each told in several ways, and questions in other words.

Written for hushvec, MIT. A situation has two or three parts, each with alternatives; a question has no word of importance that all
of its situation's texts have, so that it has to be found by meaning.
"""

from __future__ import annotations

from typing import TypedDict


class Situation(TypedDict):
    """Parts of the text with their alternatives, and questions about it."""

    text: tuple[tuple[str, ...], ...]
    questions: tuple[str, ...]


def told(questions: tuple[str, ...], *parts: tuple[str, ...]) -> Situation:
    return {"text": parts, "questions": questions}


FIRST_NAMES = (
    "Adaeze", "Agnes", "Albin", "Alma", "Anders", "Anouk", "Arlo", "Asha", "Bela", "Bram", "Carys", "Cosmo", "Dagny",
    "Dario", "Delphine", "Edda", "Emeka", "Esme", "Fabio", "Fern", "Gareth", "Gita", "Halima", "Hedda", "Henk",
    "Imre", "Iona", "Ivo", "Jarek", "Joss", "Kaito", "Kirsi", "Lorna", "Lucan", "Maeve", "Malik", "Mira", "Nils",
    "Noor", "Odette", "Orla", "Otis", "Pablo", "Pilar", "Quinn", "Rafi", "Rhea", "Rosa", "Sami", "Sanna", "Silas",
    "Sunita", "Tamsin", "Theo", "Ulla", "Vera", "Wanda", "Yara", "Yusuf", "Zelda",
)  # fmt: skip
LAST_NAMES = (
    "Achterberg", "Adler", "Balint", "Barrow", "Bexley", "Calder", "Chandra", "Corrigan", "Dacosta", "Dahl",
    "Eastman", "Farkas", "Fenn", "Galloway", "Greaves", "Halvorsen", "Hobday", "Iversen", "Jolly", "Kessler", "Kowal",
    "Lindgren", "Loxley", "Marchetti", "Mbeki", "Nakata", "Novotny", "Okafor", "Pargeter", "Quist", "Renard",
    "Sallow", "Sorley", "Tobin", "Ueda", "Vantongeren", "Wexford", "Yilmaz", "Zeller",
)  # fmt: skip

SLOTS: dict[str, tuple[str, ...]] = {
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    "month": ("January", "March", "April", "June", "September", "November"),
    "number": ("two", "three", "four", "five", "six"),
    "weeks": ("two weeks", "three weeks", "a month", "ten days", "six weeks"),
    "amount": ("85", "140", "260", "390", "615", "1,200", "2,750"),
    "place": ("Alder Falls", "Brackwater", "Corrie Street", "Dunmore", "the harbour", "the old mill", "Wexcombe"),
}

FOLLOW_UPS = (
    "Called again on {day} and asked what happens next.",
    "No change since {day}.",
    "Second message about this in {weeks}.",
    "{first} says that nobody has called back.",
    "Sent the missing papers on {day}.",
    "Better than last week, but not solved.",
)

SITUATIONS: dict[str, list[Situation]] = {
    "clinic": [
        told(
            ("a person with trouble breathing at night", "who might need an inhaler"),
            ("{name} wakes up wheezing around {number} in the morning.", "{name} coughs through the night and cannot lie flat."),
            ("It began {weeks} ago, after the move to {place}.", "The dust in the new flat makes it worse."),
            ("Spirometry booked for {day}.", "Asked about asthma in the family: the mother has it."),
        ),
        told(
            ("somebody whose sugar is out of control", "diabetic patients who skip their medicine"),
            (
                "{name} has stopped taking metformin because of stomach cramps.",
                "The long-term glucose value of {name} is up again.",
            ),
            ("The foot on the left side tingles.", "Drinks {number} litres a day and is still thirsty."),
            ("Referred to the nurse for insulin training.", "New plan: smaller doses with meals."),
        ),
        told(
            ("a patient who is afraid of an operation", "surgery that was put off"),
            ("{name} cancelled the knee replacement for the second time.", "The hip operation of {name} is off until {month}."),
            (
                "A cousin never woke up from anaesthesia, and that story sticks.",
                "Says the pain is bearable if the stairs are taken slowly.",
            ),
            ("Offered a talk with the anaesthetist on {day}.", "Physiotherapy goes on meanwhile."),
        ),
        told(
            ("low spirits after a loss", "who should see a therapist"),
            ("{name} has hardly left the house since the funeral.", "Since the divorce {name} sleeps {number} hours at most."),
            ("Food has no taste and friends are not answered.", "Cries at work and hides it."),
            ("Agreed to counselling, first meeting on {day}.", "Asked about thoughts of suicide: none."),
        ),
        told(
            ("children who react to food", "a dangerous meal at school"),
            (
                "The daughter of {name} swelled up after a slice of birthday cake.",
                "{name} reports hives on the boy within minutes of lunch.",
            ),
            ("There were hazelnuts in it.", "It was the second time in {weeks}."),
            ("Prescribed an adrenaline pen and showed how to use it.", "Allergy test on {day}."),
        ),
        told(
            ("news of a pregnancy", "morning sickness that does not stop"),
            ("{name} is in the eleventh week and cannot keep anything down.", "{name} did a test on {day}, and it was positive."),
            ("Nobody at work knows yet.", "The first child came {number} weeks early."),
            ("Scan arranged for {month}.", "Folic acid and ginger, back in {weeks}."),
        ),
    ],
    "bank": [
        told(
            ("payments that the customer did not make", "somebody used a stolen card"),
            ("{name} sees {number} payments to a petrol station in {place}.", "A charge of {amount} that {name} never made."),
            ("The card was in the wallet all the time.", "The phone had been lost on the train on {day}."),
            ("Card blocked, new one sent.", "Chargeback opened; the answer takes {weeks}."),
        ),
        told(
            ("cannot keep up with what is owed", "a customer who falls behind"),
            ("{name} has missed {number} instalments of the car loan.", "{name} asks for a pause of the mortgage payments."),
            ("Hours at the factory were cut in {month}.", "The whole salary goes into the rent."),
            ("Offered a plan of {amount} a month.", "Sent to the debt advice office in {place}."),
        ),
        told(
            ("buying a first home", "how much can be borrowed for a house"),
            (
                "{name} wants to buy the flat above the bakery in {place}.",
                "{name} has found a small house and needs a decision by {day}.",
            ),
            ("The grandmother gives {amount} as a start.", "Savings cover a tenth of the price."),
            ("A fixed rate for ten years was offered.", "Waiting for the surveyor."),
        ),
        told(
            ("a transfer that looks like a scam", "an old person tricked on the phone"),
            (
                "{name} was told by phone to move {amount} to a safe account.",
                "A caller who claimed to be our fraud team spoke with {name} for an hour.",
            ),
            ("The caller knew the date of birth.", "The money went to a bank abroad on {day}."),
            ("Recall sent, chances are poor.", "The daughter will be called before any large transfer."),
        ),
        told(
            ("money for the time after work", "when to stop working and live on savings"),
            ("{name} would like to retire in {number} years.", "{name} asks whether the pension can be paid out at once."),
            ("Half of it lies in one technology share.", "There is an old plan with an employer in {place}."),
            ("Explained what happens to the tax.", "Meeting with an adviser in {month}."),
        ),
        told(
            ("a small company in need of credit", "cash runs out before customers pay"),
            (
                "The bakery of {name} needs a bridge of {amount} thousand.",
                "{name} has payroll on {day} and nothing in the account.",
            ),
            ("Two large customers pay {weeks} late.", "The oven broke and had to be replaced."),
            ("Collateral: the van.", "Asked for the books of the last {number} years."),
        ),
    ],
    "work": [
        told(
            ("an employee who is treated badly by the boss", "shouting at colleagues"),
            ("{name} was shouted at in front of the whole team.", "{name} reports that the manager calls people at midnight."),
            ("It has happened {number} times since {month}.", "Two others saw it and are ready to say so."),
            ("Wants to stay anonymous.", "Talk with both sides planned for {day}."),
        ),
        told(
            ("wants to be paid more", "a competitor tries to hire our people"),
            ("{name} has an offer from the firm across the road.", "{name} asks for {amount} more a month."),
            ("The review in {month} was excellent.", "Without {first} the release cannot be finished."),
            ("Answer promised by {day}.", "A bonus would be enough, says the team lead."),
        ),
        told(
            ("time off for a newborn or a sick parent", "who will be away for months"),
            ("{name} asks for parental leave from {month}.", "{name} wants to work from home to look after the father."),
            ("Half days would be possible after {weeks}.", "The mother-in-law can help on {day}s only."),
            ("Replacement needed for the night shift.", "Form sent."),
        ),
        told(
            ("an accident in the warehouse", "somebody was injured on the job"),
            ("{name} strained the back lifting crates.", "A pallet fell on the foot of {name}."),
            ("The belt had not been serviced since {month}.", "There was no second person, although the rule asks for one."),
            ("Off sick for {weeks}.", "Report to the insurer on {day}."),
        ),
        told(
            ("problems with punctuality", "an employee who is often absent"),
            ("{name} was late {number} times this month.", "{name} did not come on {day} and did not call."),
            ("Blames the ferry from {place}.", "There seems to be trouble at home."),
            ("First written warning.", "A later start of the shift was agreed on trial."),
        ),
        told(
            ("false claims in an application", "should we hire this candidate"),
            (
                "The degree of {name} cannot be found at the university.",
                "{name} left out a job of {number} years that ended badly.",
            ),
            ("The references come from a private address.", "In the interview the dates kept changing."),
            ("No offer.", "Asked for the originals by {day}."),
        ),
    ],
    "home": [
        told(
            ("damp rooms and a leak", "the ceiling drips"),
            ("Water runs down the wall of the bathroom, says {name}.", "{name} has a brown stain over the bed that grows."),
            ("The flat above is empty since {month}.", "A plumber came on {day} and found nothing."),
            ("The tenant wants {amount} off the rent.", "Sent the roofer."),
        ),
        told(
            ("neighbours who keep people awake", "complaints about a loud flat"),
            (
                "{name} cannot sleep because of drums on the third floor.",
                "Parties next door until {number} in the morning, writes {name}.",
            ),
            ("The police came on {day}.", "It has been going on for {weeks}."),
            ("Letter sent to the other party.", "Keeps a diary of it."),
        ),
        told(
            ("no heat in winter", "radiators stay cold"),
            (
                "The boiler of {name} shows an error since {day}.",
                "{name} has two small children and {number} degrees in the kitchen.",
            ),
            ("The part has to come from {place}.", "It failed in {month} as well."),
            ("Lent an electric heater.", "Engineer on {day}."),
        ),
        told(
            ("a deposit that was not returned", "quarrel with a landlord after moving out"),
            ("The landlord of {name} keeps {amount} because of scratches.", "{name} moved out in {month} and has seen no money."),
            ("There are photographs from the day of the handover.", "Letters stay unanswered for {weeks}."),
            ("Explained how to go to the tenants' court.", "Last reminder sent on {day}."),
        ),
        told(
            ("animals in a flat where none are allowed", "a dog that bothers the house"),
            ("{name} keeps {number} dogs although the lease forbids it.", "The parrot of {name} can be heard on the street."),
            ("The stairs smell.", "A child was bitten on {day}."),
            ("Asked to find another place for them within {weeks}.", "Claims that they belong to a sister."),
        ),
        told(
            ("burglars", "things were taken while the family was away"),
            (
                "Somebody broke the kitchen window of {name} on {day}.",
                "{name} came home from {place} and the drawers were on the floor.",
            ),
            ("A laptop and a ring are gone, about {amount}.", "The lock had not been changed since the last tenant."),
            ("Police report filed.", "New lock and a light at the door."),
        ),
    ],
    "school": [
        told(
            ("a child who is picked on", "pupils who are cruel to another"),
            (
                "The son of {name} eats lunch alone and will not say why.",
                "Somebody writes nasty things about the daughter of {name}.",
            ),
            ("It happens on the bus from {place}.", "{number} classmates are involved."),
            ("Talk with the parents on {day}.", "The seat on the bus was changed."),
        ),
        told(
            ("difficulties with reading", "letters get mixed up"),
            (
                "The daughter of {name} guesses words instead of reading them.",
                "{name} says homework takes {number} hours and ends in tears.",
            ),
            ("Maths is no problem at all.", "The older brother had the same."),
            ("Test for dyslexia in {month}.", "Extra time in the exam on {day}."),
        ),
        told(
            ("copied an essay", "cheating in an exam"),
            (
                "The essay by the son of {name} is on the internet, word for word.",
                "A phone was found under the desk of {first} {last} junior.",
            ),
            ("It was the final paper.", "There had been a warning in {month}."),
            ("Has to write it again by {day}.", "The parents deny it."),
        ),
        told(
            ("money for a student who cannot pay", "who gets the scholarship"),
            ("{name} asks for help with the fees of the twins.", "The daughter of {name} was accepted to study marine biology."),
            ("The father lost his job in {month}.", "Grades are the best of the year."),
            ("Grant of {amount} approved.", "Form is missing a signature."),
        ),
        told(
            ("bored in class because it is too easy", "a very gifted pupil"),
            ("The boy of {name} finishes the book while others begin.", "{name} thinks that the girl should skip a year."),
            ("Disturbs the others when there is nothing to do.", "Reads about stars until midnight."),
            ("Maths with the older class from {day}.", "Observed for {weeks} first."),
        ),
        told(
            ("a pupil who stays away", "truancy"),
            ("The son of {name} was absent on {number} mornings.", "{name} believed that the girl was in class on {day}."),
            ("Was seen at {place}.", "Says that there is no point."),
            ("Visit at home planned.", "Social worker informed in {month}."),
        ),
    ],
    "travel": [
        told(
            ("a suitcase that did not arrive", "missing baggage"),
            ("The suitcase of {name} went to another airport.", "{name} stood at the belt until it stopped."),
            ("Medicine for {weeks} is in it.", "The wedding suit is needed on {day}."),
            ("Paid {amount} for clothes.", "Found in {place}, delivery tomorrow."),
        ),
        told(
            ("lost papers abroad", "cannot fly home without identification"),
            ("{name} left the passport in a taxi.", "The bag of {name} was stolen with all documents."),
            ("The flight leaves on {day}.", "The consulate opens in {number} hours."),
            ("Emergency papers cost {amount}.", "A copy was in the mail."),
        ),
        told(
            ("help for a traveller who cannot walk", "assistance at the gate"),
            ("{name} needs a wheelchair from the taxi to the seat.", "{name} travels with crutches after an operation."),
            ("Changes planes in {place}.", "A companion sits {number} rows behind."),
            ("Seat at the aisle booked.", "Confirmed for {day}."),
        ),
        told(
            ("unhappy hotel guests", "a room that was not as promised"),
            ("{name} was given a room over the kitchen.", "The sea view of {name} turned out to be a wall."),
            ("There was building work from {number} in the morning.", "Nobody at the desk had time."),
            ("Moved on {day}.", "Wants {amount} back."),
        ),
        told(
            ("trains that did not run", "stuck at a station overnight"),
            ("{name} missed the last connection in {place}.", "The night train of {name} was cancelled without notice."),
            ("Slept on a bench with {number} children.", "A taxi cost {amount}."),
            ("Claim filed on {day}.", "Voucher refused, wants money."),
        ),
        told(
            ("fell ill on holiday", "medical bills from a trip"),
            ("{name} was stung by a jellyfish on the first day.", "{name} spent {number} nights in a hospital in {place}."),
            ("The insurer says that it had to be reported at once.", "The bill is {amount} and in a foreign language."),
            ("Translation ordered.", "Flew home on {day}."),
        ),
    ],
}
