"""What no schema says: for which reasons a request may be refused that fits the description.

Takes the place of schemathesis' check of the same purpose and is the same, but for one thing: a 400 is let pass if every
error in it is one of these rules, each a reason about a field. Whatever else fits the description has to be taken.
"""

import re

import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance

RULES = [
    # Which length of time a text says is no matter of its form; numbers have their bounds in the schema.
    (r"(^|\.)(timeout|gap|keep|history)$", r"^is out of range$|is longer than 100 years"),
    (r"(^|\.)(validFor|maxAge)$", r"is longer than 100 years|^is not more than 0$|^is nothing$|^is not valid$"),
    (r"^(since|until)$", r"^is neither an instant nor a duration$"),
    (r"^limits\.memory$", r"^is out of range$"),
    # The last day of a month, a range that runs backwards and the names of zones are not matters of form either.
    (r"^schedule$", r"never fires|runs backwards|is not a time zone"),
    (r"^(Estimand-Sent-At|collectedAt)$", r"^is not an (RFC 3339 )?instant$"),
    # Expressions are no regular language, and what is built in is the agent's to know.
    (r"^cmd$", r""),
    # Fields that have to do with other fields' values, or with what there is.
    (r"^inputs$", r"nothing is registered for|own data name"),
    (r"^secrets$", r"which `env` does not have$"),
    (r"^env(\.\w+)?$", r"only the value of a secret|no value of it is kept$"),
    (r"^params$", r"twice: ESTIMAND_PARAM_\* ignores case$"),
    (r"(^|\.)(max|maximum|maxItems|maxLength)$", r"^is less than `"),
    # A certificate signing request is a signed document.
    (r"^request$", r""),
]


def is_unsayable(error):
    return any(re.search(field, error["field"]) and re.search(reason, error["message"]) for field, reason in RULES)


@schemathesis.check
def what_fits_the_description_is_taken(ctx, response, case):
    if response.status_code == 400:
        errors = response.json().get("errors") or [None]
        if all(error and is_unsayable(error) for error in errors):
            return None
    return positive_data_acceptance(ctx, response, case)
