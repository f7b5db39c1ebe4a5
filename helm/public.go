package helm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// shownParts are the parts of a text of Helm that everybody may read, by their form: a place in a template, a kind
	// that the API server does not have, a Helm hook that failed.
	shownParts = regexp.MustCompile(`[\w.-]+(?:/[\w.-]+)*/templates/[\w./-]+(?::\d+)?` +
		`|no matches for kind "[A-Za-z0-9]+" in version "[a-z0-9./-]+"` +
		`|\b(?:job|pod) [a-z0-9.-]+ failed(?:: [A-Za-z]+)?|Helm hook [A-Za-z]+ [a-z0-9./-]+ did not finish within [0-9a-z]+`)
	// shownField is as much of the path of a field as cannot hold a value: a key of a map in brackets may be one.
	shownField = regexp.MustCompile(`^[A-Za-z0-9_.-]*(?:\[\d*\][A-Za-z0-9_.-]*)*`)
	shownWord  = regexp.MustCompile(`^[A-Za-z]*`)
)

// mostParts and mostFields limit what is listed: the first ones are enough to find the others.
const mostParts, mostFields = 3, 5

// publicText describes an error by what is known of it and is not free text. refused is the last refusal of the API
// server; nil if there was none.
func publicText(kind Kind, refused *metav1.Status, text string) string {
	what := map[Kind]string{
		Render: "the chart does not load or render", Cancelled: "the operation was cancelled",
		Unavailable: "the API server cannot be reached, or is overloaded",
	}[kind]
	if kind != Render && refused != nil {
		what = refusalText(refused)
	}
	var parts []string
	if what != "" {
		parts = append(parts, what)
	}
	for _, part := range shownParts.FindAllString(text, -1) {
		if len(parts) <= mostParts && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "Helm failed (" + string(kind) + ")"
	}
	return strings.Join(parts, "; ")
}

// refusalText says what the API server has refused, and why, without the messages, which quote values.
func refusalText(s *metav1.Status) string {
	text, details := "the API server refuses the request", &metav1.StatusDetails{}
	if s.Details != nil {
		details = s.Details
	}
	if details.Kind != "" {
		text = fmt.Sprintf("the API server refuses %s %s", details.Kind, details.Name)
	}
	text += fmt.Sprintf(" (%d %s)", s.Code, shownWord.FindString(string(s.Reason)))
	var fields []string
	for _, c := range details.Causes[:min(len(details.Causes), mostFields)] {
		field, reason := shownField.FindString(c.Field), shownWord.FindString(string(c.Type))
		fields = append(fields, fmt.Sprintf("%s (%s)", field, reason))
	}
	if len(fields) > 0 {
		text += ": " + strings.Join(fields, ", ")
	}
	return text
}
