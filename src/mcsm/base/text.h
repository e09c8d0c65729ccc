/* Numbers, GUIDs and lists in files and on command lines. */
#ifndef MCSM_TEXT_H
#define MCSM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Parses a whole number, decimal or 0x..., that fills the text. -EINVAL: the text is no number, or the
 * number is outside of [min, max]. */
int mcsm_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value_p);

/** A GUID: 0x and 1 to 16 hexadecimal digits, not zero. 0 or -EINVAL. */
int mcsm_parse_guid(const char *text, uint64_t *guid_p);

/** "GUID/PORT", port 1 to 254. 0 or -EINVAL. */
int mcsm_parse_guid_port(const char *text, uint64_t *guid_p, uint8_t *port_p);

/** yes, no, true, false, on, off, 1, 0. 0 or -EINVAL. */
int mcsm_parse_bool(const char *text, bool *value_p);

/** The next word of *text_p, up to one of the separators, in word; *text_p moves behind it. Returns
 * false at the end. A word that does not fit is cut: the caller's parser then refuses it. */
bool mcsm_next_word(const char **text_p, const char *separators, char *word, size_t size);

/** Copies a NodeDescription or another text from the fabric as printable ASCII, without quotes
 * and backslashes, so any dump may contain the copy. `size` is the size of `to`, including the
 * final 0. */
void mcsm_clean_text(char *to, size_t size, const void *from, size_t length);

#endif
