package values

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// minHidden is the length below which a text is not searched for in others: to replace "admin" or
// "1" everywhere would destroy what is shown and hide nothing (J9).
const minHidden = 6

// minHiddenLine is the same for a line of a longer text, which may be printed indented, or alone;
// minHiddenWord for a line that looks like a password: one word with letters and digits. Shorter
// lines of files are words such as "enabled: true".
const minHiddenLine, minHiddenWord = 16, 8

// Hider replaces known secrets in texts, wherever they occur: as they are, in base64, and as JSON,
// YAML, HTML and URLs quote them (J9). It may miss a secret inside of a longer base64 text, where
// its letters depend on its position. It is immutable; a nil Hider hides nothing.
type Hider struct{ replacer *strings.Replacer }

// NewHider returns a Hider for some secrets; nil if none of them is long enough.
func NewHider(secrets []string) *Hider {
	forms := map[string]bool{}
	for _, secret := range secrets {
		for _, text := range append([]string{secret}, longLines(secret)...) {
			if len(strings.TrimSpace(text)) < minHidden {
				continue
			}
			for _, form := range formsOf(text) {
				forms[form] = true
			}
		}
	}
	if len(forms) == 0 {
		return nil
	}
	all := sortedKeys(forms)
	// The replacer tries the pairs in their order. The longest come first, so that a secret that
	// contains another one is replaced as a whole.
	slices.SortStableFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, form := range all {
		pairs = append(pairs, form, Hidden)
	}
	return &Hider{strings.NewReplacer(pairs...)}
}

// longLines returns the parts of a secret that may appear alone: of a text of several lines, those
// that are long enough or look like passwords.
func longLines(text string) []string {
	if !strings.Contains(strings.TrimSpace(text), "\n") {
		return []string{strings.TrimSpace(text)}
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); len(line) >= minHiddenLine || passwordLike(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func passwordLike(line string) bool {
	const letters, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	return len(line) >= minHiddenWord && !strings.ContainsAny(line, " \t") && strings.ContainsAny(line, letters) && strings.ContainsAny(line, digits)
}

// formsOf returns the ways in which a text may be written: plain, base64, in a URL, in single
// quotes of YAML, in HTML, and in JSON with and without the escapes for HTML. Forms that are the
// same are harmless.
func formsOf(text string) []string {
	forms := []string{
		text, base64.StdEncoding.EncodeToString([]byte(text)), url.QueryEscape(text), url.PathEscape(text),
		strings.ReplaceAll(text, "'", "''"), strings.ReplaceAll(html.EscapeString(text), "+", "&#43;"), // as html/template
	}
	for _, encode := range []func(any) ([]byte, error){Encode, json.Marshal} {
		quoted, _ := encode(text) // it is a text
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	return forms
}

// Text returns the text without the secrets.
func (h *Hider) Text(text string) string {
	if h == nil {
		return text
	}
	return h.replacer.Replace(text)
}

// Tree returns the tree without the secrets, also those in keys. A number is hidden only if all of
// it is a secret: a replacement inside of a number would change the number.
func (h *Hider) Tree(tree any) any {
	if h == nil {
		return tree
	}
	hidden, _ := rebuilt(tree, func(scalar any) (any, error) {
		switch v := scalar.(type) {
		case string:
			return h.Text(v), nil
		case nil, bool:
		default:
			if text, err := JSON(v); err == nil && h.Text(string(text)) == Hidden {
				return Hidden, nil
			}
		}
		return scalar, nil
	})
	return hidden
}
