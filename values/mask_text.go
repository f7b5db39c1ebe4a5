package values

import (
	"regexp"
	"slices"
	"strings"
)

// credential matches names that may be those of secrets; looksSecretInText decides.
//
//nolint:gochecknoglobals // made of lists
var credential = `(?:` + strings.Join(slices.Concat(secretParts, secretWords, []string{"key", "webhook"}), "|") + `)[\w.-]*`

var (
	// credentialURL is a URL with a password.
	credentialURL = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/@:"']*):[^\s/@"']+@`)
	// webhookURL is one whose path is a secret.
	webhookURL = regexp.MustCompile(`(?i)(https?://(?:hooks\.[\w.-]+|[\w.-]*webhook[\w.-]*|discord(?:app)?\.com/api/webhooks|api\.telegram\.org)/)[^\s"'<>]+`)
	// credentialHeader is one of HTTP.
	credentialHeader = regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+)[^\s"']+`)
	// credentialPair is name=value anywhere, or "name": "value" of JSON.
	credentialPair = regexp.MustCompile(`(?i)([\w.-]*` + credential + `)(=|["']\s*:\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'&;,{}]+)`)
	// privateKey is one in PEM, also without its end.
	privateKey = regexp.MustCompile(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)\s.*?(?:\s*(-----END [A-Z0-9 ]*PRIVATE KEY-----)|$)`)
	// credentialBlock is the first line of a text of several lines in YAML, whose indentation determines
	// its end.
	credentialBlock = regexp.MustCompile(`(?i)^(\s*(?:- +)?)["']?((?:[\w.][\w.-]*)?` + credential + `)["']?[ \t]*:[ \t]*[|>][-+0-9]*[ \t]*$`)
	// credentialLine is a line of a configuration file: name = value, or name: value.
	credentialLine = regexp.MustCompile(`(?im)^(\s*(?:- +|export +|set +)?["']?(?:[\w.][\w.-]*)?` + credential + `)(["']?[ \t]*[:=][ \t]*)(\S[^\n]*)$`)
)

// hideCredentials hides what looks like a secret inside of a text and keeps the rest. The order
// matters: keys and blocks span several lines, which the patterns for single lines would tear
// apart.
func hideCredentials(text string) string {
	text = privateKey.ReplaceAllString(text, "${1}\n"+Hidden+"\n${2}")
	if !strings.ContainsAny(text, ":=") {
		return text
	}
	text = hideBlocks(text)
	text = credentialURL.ReplaceAllString(text, "${1}:"+Hidden+"@")
	text = webhookURL.ReplaceAllString(text, "${1}"+Hidden)
	text = credentialHeader.ReplaceAllString(text, "${1}"+Hidden)
	for _, pairs := range []*regexp.Regexp{credentialLine, credentialPair} {
		text = pairs.ReplaceAllStringFunc(text, func(found string) string {
			part := pairs.FindStringSubmatch(found)
			if len(part) == 0 || !looksSecretInText(nameIn(part[1])) || pointsElsewhere(part[1], part[3]) {
				return found
			}
			quote := part[3][:1]
			if quote != `"` && quote != "'" || !strings.HasSuffix(part[3], quote) {
				quote = ""
			}
			return part[1] + part[2] + quote + Hidden + quote
		})
	}
	return text
}

// nameIn is the name in the first part of a line of a configuration file.
func nameIn(part string) string {
	return strings.Trim(part[strings.LastIndexAny(part, " \t")+1:], `"'`)
}

// hideBlocks hides the lines of YAML block scalars whose key is the name of a secret. A block ends
// at the first line that is not indented more than its key.
func hideBlocks(text string) string {
	if !strings.ContainsAny(text, "|>") {
		return text
	}
	lines := strings.Split(text, "\n")
	inside := -1 // the indentation of the name whose lines follow
	for i, line := range lines {
		content := strings.TrimLeft(line, " \t")
		indent := len(line) - len(content)
		switch part := credentialBlock.FindStringSubmatch(line); {
		case strings.TrimSpace(content) == "":
		case inside >= 0 && indent > inside:
			lines[i] = line[:indent] + Hidden
		case len(part) > 0 && looksSecretInText(part[2]) && !pointsElsewhere(part[2], "value"):
			inside = len(part[1])
		default:
			inside = -1
		}
	}
	return strings.Join(lines, "\n")
}

// pointsElsewhere reports whether a value is not a secret although its name suggests one: the name is
// that of a file, path, reference and so on, or the value is a variable, a template, empty or a
// flag.
func pointsElsewhere(name, value string) bool {
	name = strings.ToLower(name)
	for _, ending := range []string{"file", "path", "dir", "name", "ref", "url", "ttl", "type", "version", "mode"} {
		if strings.HasSuffix(name, ending) && !strings.Contains(name, "webhook") {
			return true
		}
	}
	value = strings.Trim(value, `"' `+"\t\r")
	if value == "" || strings.HasPrefix(value, "$") || strings.HasPrefix(value, "{{") || strings.Trim(value, "|>-+[]{}") == "" || value == Hidden {
		return true
	}
	return slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "null", "none"}, strings.ToLower(value))
}

// asksForCredential reports whether the next argument of a command is a secret, as after --password
// as a word of its own.
func asksForCredential(argument any) bool {
	text, _ := argument.(string)
	if !strings.HasPrefix(text, "-") || strings.ContainsAny(text, "= ") {
		return false
	}
	return looksSecretInText(text) && !pointsElsewhere(text, "value")
}
