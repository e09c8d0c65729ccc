"""qos-policy.conf: the rules for quality of service."""
import re

from .result import lines_of


def read_policy(path, result):
    """qos-policy.conf: sections up to end-SECTION, "key: value" lines between them."""
    open_sections = []
    for where, line in lines_of(path):
        if line.startswith("end-"):
            if not open_sections or open_sections[-1] != line[4:]:
                result.error(where, f'"{line[:60]}" ends no section that is open')
            else:
                open_sections.pop()
        elif ":" in line:
            key, value = (part.strip() for part in line.split(":", 1))
            if not open_sections:
                result.error(where, f'"{line[:60]}" stands outside of a section')
            else:
                result.lacks(where, f"{open_sections[-1]}: {key}: {value}")
        elif re.fullmatch("[a-z0-9-]+", line):
            open_sections.append(line)
        else:
            result.error(where, f'"{line[:60]}": expected a section, "key: value" or end-SECTION')
    if open_sections:
        result.error(path, f"the file ends inside of {open_sections[-1]}")
