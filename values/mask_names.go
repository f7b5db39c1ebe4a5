package values

import (
	"slices"
	"strings"
	"unicode"
)

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
