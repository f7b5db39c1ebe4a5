package values

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// GlobalKey is the key of the section that every hook and every chart can see.
const GlobalKey = "global"

const (
	flagSuffix        = "Enabled"
	maintenanceSuffix = "Maintenance"
	enabledModulesKey = "enabledModules" // computed when values are written for a hook, never stored (D9)
)

// Key converts the name of a module, written-like-this, into the key of its section,
// writtenLikeThis (A6). It refuses names that cannot be converted back, because two of them could
// share one key; the error proposes the right name.
func Key(moduleName string) (string, error) {
	if !isKebab(moduleName) {
		return "", nameError(moduleName)
	}
	parts := strings.Split(moduleName, "-")
	var key strings.Builder
	key.WriteString(parts[0])
	for _, part := range parts[1:] {
		key.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	switch name := key.String(); {
	case name == GlobalKey:
		return "", fmt.Errorf("module name %q is reserved: its values would share the section %q with all modules", moduleName, GlobalKey)
	case moduleName == "converge", moduleName == "global-hooks": // messages.ModuleOf
		return "", fmt.Errorf("module name %q is reserved: tasks and pages call a part of the operator by it; choose another name", moduleName)
	case strings.HasSuffix(name, flagSuffix), strings.HasSuffix(name, maintenanceSuffix):
		return "", fmt.Errorf("module name %q: the key %q of its values would be read as a flag or maintenance mode of another module; choose a name without this suffix", moduleName, name)
	default:
		return name, nil
	}
}

// isKebab accepts words of lower-case letters and digits, each beginning with a letter, joined by
// single dashes. With a digit at the beginning of a word, a-1 and a1 would have the same key.
func isKebab(name string) bool {
	return !slices.ContainsFunc(strings.Split(name, "-"), func(word string) bool {
		return word == "" || isDigit(word[0]) || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != ""
	})
}

// nameError explains what a name must look like, and proposes one when it can be guessed.
func nameError(name string) error {
	const rule = "module name %q must be words of lower-case letters and digits joined by dashes, each beginning with a letter"
	if proposal := kebab(name); isKebab(proposal) {
		return fmt.Errorf(rule+"; rename the module to %q", name, proposal)
	}
	return fmt.Errorf(rule, name)
}

// kebab guesses what the author of a wrong name meant: MyModule, my_module, my--module are
// my-module; module-2 is module2.
func kebab(name string) string {
	return regexp.MustCompile(`-(\d)`).ReplaceAllString(strings.Join(wordsOf(name), "-"), "$1")
}

// camelToName is the inverse of Key for the keys that Key returns; for other texts the result means
// nothing.
func camelToName(key string) string {
	return strings.ToLower(regexp.MustCompile(`[A-Z]`).ReplaceAllString(key, "-$0"))
}

// isKey reports whether a text can be the key of a module's section: Key returns it for some name.
func isKey(key string) bool {
	made, err := Key(camelToName(key))
	return err == nil && made == key
}

// NameOf is the name of the module to which a key of the ConfigMap, which was parsed, belongs: edge-proxy for
// edgeProxy and edgeProxyEnabled.
func NameOf(key string) string {
	return camelToName(strings.TrimSuffix(strings.TrimSuffix(key, flagSuffix), maintenanceSuffix))
}

// FlagKey is the key that switches a module on or off (A7).
func FlagKey(key string) string { return key + flagSuffix }

// MaintenanceKey is the key that puts a module into maintenance (A7).
func MaintenanceKey(key string) string { return key + maintenanceSuffix }

// isFlag reports whether a key is a flag such as someModuleEnabled.
func isFlag(key string) bool { return isOfModule(key, flagSuffix) }

// isMaintenance reports whether a key is a maintenance mode such as someModuleMaintenance.
func isMaintenance(key string) bool { return isOfModule(key, maintenanceSuffix) }

func isSwitch(key string) bool { return isFlag(key) || isMaintenance(key) }

// isOfModule cuts the suffix and checks that the key of a module is left: "globalEnabled" and
// "Enabled" belong to no module.
func isOfModule(key, suffix string) bool {
	owner, found := strings.CutSuffix(key, suffix)
	return found && isKey(owner)
}

// Nearest returns the known word that was probably meant, or "": the first one that contains the word, or else the one
// that differs in the fewest letters, up to two and a third of the word, whatever the case. What two flags or
// maintenance keys end with does not count.
func Nearest(word string, known []string) string {
	best, least := "", 3
	for _, candidate := range known {
		asked, name := word, candidate
		for _, end := range []string{flagSuffix, maintenanceSuffix} {
			if strings.HasSuffix(word, end) && strings.HasSuffix(candidate, end) {
				asked, name = strings.TrimSuffix(word, end), strings.TrimSuffix(candidate, end)
			}
		}
		if len(asked) >= 3 && strings.Contains(name, asked) {
			return candidate
		}
		if d := distance(strings.ToLower(asked), strings.ToLower(name)); d < least && d <= len(asked)/3+1 && d < len(name) {
			best, least = candidate, d
		}
	}
	return best
}

// DidYouMean proposes the word that Nearest finds, or else returns otherwise.
func DidYouMean(word string, known []string, otherwise string) string {
	if meant := Nearest(word, known); meant != "" {
		return "did you mean " + meant + "?"
	}
	return otherwise
}

// distance returns how many letters two words do not have in common. Long words are not compared, because the author
// of a ConfigMap decides how long its keys are.
func distance(a, b string) int {
	const long = 64
	most, common := max(len(a), len(b)), 0
	if most > long {
		return most
	}
	for _, same := range difflib.NewMatcher(strings.Split(a, ""), strings.Split(b, "")).GetMatchingBlocks() {
		common += same.Size
	}
	return most - common
}
