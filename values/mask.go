package values

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// judge reports whether the value at a path is a secret: one in a map m, or in a list if m is nil. above: what is
// around it is one.
type judge func(m map[string]any, path pointer, above bool) bool

// Mask returns a tree with everything hidden that looks like a secret: what is below a key with such a name, or with
// all every text and number in it (D38).
func Mask(tree any, all bool) any {
	return hideBy(func(_ map[string]any, path pointer, above bool) bool {
		return all || secretAt(path, above)
	}, tree, nil, all)
}

// hideBy replaces texts and numbers that are secret, keys in PEM, and inside of texts what hideCredentials finds.
// Booleans, nulls and empty texts stay.
func hideBy(isSecret judge, tree any, path pointer, secret bool) any {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, child := range v {
			at := slices.Concat(path, pointer{key})
			out[key] = hideBy(isSecret, child, at, isSecret(v, at, secret))
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			at := slices.Concat(path, pointer{strconv.Itoa(i)})
			out[i] = hideBy(isSecret, child, at, isSecret(nil, at, secret) || i > 0 && asksForCredential(v[i-1]))
		}
		return out
	case nil, bool:
		return tree
	case string:
		if v == "" || !secret && !strings.Contains(v, "-----BEGIN") {
			return hideCredentials(v)
		}
		return Hidden
	}
	if secret {
		return Hidden
	}
	return tree
}

// MaskObject returns a Kubernetes object without what is or looks like a secret: the content of a
// Secret, values below keys that look like those of secrets, the values of environment variables
// with such names, arguments of commands, URLs and lines of texts with passwords, and the copy of
// the object that kubectl keeps in an annotation. References to secrets stay.
func MaskObject(object any) any {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	whole, _ := object.(map[string]any)
	return hideBy(func(m map[string]any, path pointer, above bool) bool {
		key := path[len(path)-1]
		name, _ := m["name"].(string)
		switch path[0] {
		case "kind", "apiVersion", "type":
			return false
		case "metadata": // names and labels are no secrets, even if they look like one
			return len(path) > 2 && path[1] == "annotations" && (path[2] == lastApplied || looksSecret(path[2]))
		}
		return whole["kind"] == "Secret" || key == "value" && looksSecret(name) || secretAt(path, above) && (above || !refers(key, m[key]))
	}, object, nil, false)
}

// Object returns a Kubernetes object masked as MaskObject does, and without the known secrets.
func (h *Hider) Object(object map[string]any) map[string]any {
	masked, _ := h.Tree(MaskObject(object)).(map[string]any)
	return masked
}

// refers recognizes keys that only reference a secret, or merely look like it.
func refers(key string, child any) bool {
	_, text := child.(string)
	return !text && slices.Contains([]string{"secret", "secretRef", "secretKeyRef", "configMapKeyRef", "imagePullSecrets"}, key)
}

// The names of secrets. It is the one list for values, objects, the texts in them, and differences.
//
//nolint:gochecknoglobals // lists
var (
	// secretParts make a name that of a secret wherever they are in it. There are false positives, because to hide a
	// value without need costs less than to show a secret.
	secretParts = []string{
		"pass", "pwd", "secret", "token", "cred", "private", "salt", "signature", "dsn", "kubeconfig", "license",
		"bearer", "cookie", "dockerconfig", "dockercfg", "netrc", "hmac", "jwt",
	}
	// vagueParts do so, too, but not inside of a text, where much of what has "key" in its name is no secret.
	vagueParts = []string{"key", "cert", "auth"}
	// secretWords are too short for that: they must be words of the name.
	secretWords = []string{"conn", "pin", "sas", "otp", "pat", "seed"}
	// secretPhrases are several words, whatever is between them.
	secretPhrases = []string{"webhookurl", "webhookuri", "connectionstring"}
	// plainEndings are those of names of Secrets, and of keys that are public.
	plainEndings = []string{"secretname", "existingsecret", "topologykey", "publickey"}
)

// Some values below a name of a secret are none, because their own names have a meaning of their own: those of
// Kubernetes for parts of Pods, which charts write below createSecretJob or auth, and those of durations and
// quantities.
//
//nolint:gochecknoglobals // lists
var (
	plainParts = []string{"securitycontext", "resources", "affinity", "tolerations", "nodeselector"}
	plainWords = []string{
		"limit", "replicas", "port", "seconds", "minutes", "hours", "days", "duration", "timeout", "ttl",
		"size", "length", "count", "retries",
	}
)

// looksSecret reports whether a key looks like that of a secret.
func looksSecret(key string) bool {
	if len(key) > 256 {
		return true // nor is it searched for each value below it
	}
	vague := slices.DeleteFunc(wordsOf(key), func(word string) bool { return word == "author" || word == "authors" })
	return namesSecret(key, strings.ToLower(key)) || hasPart(strings.Join(vague, " "), vagueParts) && !endsPlain(key)
}

// looksSecretInText is looksSecret for a name inside of a text. Of the vague ones a compound with "key" at its end
// counts, as sshKey, but not the key of a topology or a public one.
func looksSecretInText(name string) bool {
	lower := strings.ToLower(name)
	compound := strings.HasSuffix(lower, "key") && lower != "key" && !endsPlain(name)
	return compound || strings.Contains(lower, "accesskey") || namesSecret(name, lower)
}

func namesSecret(key, lower string) bool {
	if hasPart(lower, secretParts) {
		return !endsPlain(key)
	}
	all := wordsOf(key)
	return slices.ContainsFunc(all, func(word string) bool { return slices.Contains(secretWords, word) }) ||
		hasPart(strings.Join(all, ""), secretPhrases)
}

// secretAt reports whether the value at a path is a secret, by the name of its key or, with above, by those above it.
// The URL of a webhook is a secret, also as url below webhook.
func secretAt(path []string, above bool) bool {
	key, parent := path[len(path)-1], len(path)-2
	for parent >= 0 && allDigits(path[parent]) {
		parent--
	}
	webhook := parent >= 0 && strings.Contains(strings.ToLower(path[parent]), "webhook") && (strings.EqualFold(key, "url") || strings.EqualFold(key, "uri"))
	return webhook || looksSecret(key) || above && !ownMeaning(key)
}

// secretPath is secretAt for all keys of a path.
func secretPath(path pointer) (secret bool) {
	for i := range path {
		secret = secretAt(path[:i+1], secret)
	}
	return secret
}

func ownMeaning(key string) bool {
	all := wordsOf(key)
	return len(all) > 0 && slices.Contains(plainWords, all[len(all)-1]) || hasPart(strings.ToLower(key), plainParts) || endsPlain(key)
}

func endsPlain(key string) bool {
	name := strings.Join(wordsOf(key), "")
	return slices.ContainsFunc(plainEndings, func(ending string) bool { return strings.HasSuffix(name, ending) })
}

func hasPart(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// wordsOf are the words of a name, in lower case: of camelCase, snake_case, kebab-case and TLSKey.
func wordsOf(name string) []string {
	var spaced strings.Builder
	all := []rune(name)
	for i, r := range all {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case i == 0 || !unicode.IsUpper(r):
		case unicode.IsLower(all[i-1]), i+1 < len(all) && unicode.IsLower(all[i+1]):
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(spaced.String())
}

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
