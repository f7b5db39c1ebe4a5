package manifest

import "strings"

// Split divides what a template has printed into its documents, exactly as
// releaseutil.SplitManifests of Helm does: the checksum of a manifest depends on it. Helm searches
// with a regular expression, which is slow for manifests of megabytes. Documents without any text
// are left out.
func Split(text string) []string {
	const separator, space = "---", "\t\n\f\r "
	text = strings.TrimSpace(text)
	var documents []string
	add := func(document string) {
		if document != "" {
			documents = append(documents, strings.TrimSpace(document))
		}
	}
	begin := 0 // of the document; a line break before it belongs to the last separator
	for at := 0; ; {
		found := strings.Index(text[at:], separator)
		if found < 0 {
			break
		}
		at += found
		// Within a line it is text; right after a separator Helm's expression does not match again.
		if at > 0 && (at == begin || text[at-1] != '\n') {
			at++
			continue
		}
		add(strings.TrimRight(text[begin:at], space))
		rest := text[at+len(separator):]
		at = len(text) - len(strings.TrimLeft(rest, space))
		begin = at
	}
	add(text[begin:])
	return documents
}
