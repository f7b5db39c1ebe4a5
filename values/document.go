package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// NoResourceReconciliation is the mode of maintenance in which the hooks of a module continue while
// its release does not change: nothing is installed, upgraded, healed or deleted (H15). It is the
// only one.
const NoResourceReconciliation = "NoResourceReconciliation"

// Suspended is the mode in which a module neither changes its release nor runs its hooks (H27). A
// person requests it by an object of kind Module; the ConfigMap cannot contain it.
const Suspended = "Suspended"

// Document is one parsed values.yaml, or the ConfigMap. Documents share their trees with the
// sections that are made of them, so nothing may write into them.
type Document struct {
	// Sections maps "global" and the camelCase keys of modules to maps or lists. A section without
	// content is absent.
	Sections map[string]any
	// Secrets are the sections of the Secret (D40), parsed by ParseSecret. ParseFile and
	// ParseConfigMap leave it nil.
	Secrets map[string]any
	// Flags maps keys like someModuleEnabled to their value. A section that is the text "false" is
	// the flag false of its module (X12), unless the document has the flag itself.
	Flags map[string]bool
	// Maintenance maps keys like someModuleMaintenance to NoResourceReconciliation, or to "" for
	// none (H15), which overrides the mode of a weaker file.
	Maintenance map[string]string
	// Others are keys of a module's own file that are not its own, at most maxProblems. The caller decides whether
	// they are values of the chart or mistakes (A20).
	Others []string
}

// ParseFile parses a values.yaml (A19, E5). In the common file of a modules directory every key
// counts. With only, as for a module's own file, it reads nothing but these sections and their
// flags, because the rest belongs to the chart (D5). Errors name the path and every bad key; the
// document is then empty, so a file takes effect as a whole or not at all.
func ParseFile(path string, data []byte, only ...string) (Document, error) {
	content, err := parseMap("values file "+path, data, "must be a map of sections")
	if err != nil {
		return Document{}, err
	}
	own, others := map[string]any{}, []string(nil)
	for _, key := range sortedKeys(content) {
		concerns := func(section string) bool {
			return key == section || key == FlagKey(section) || key == MaintenanceKey(section)
		}
		if len(only) == 0 || slices.ContainsFunc(only, concerns) {
			own[key] = content[key]
		} else if len(others) < maxProblems {
			others = append(others, key)
		}
	}
	document, err := read(own, "values file "+path+": key ", "", Document.add)
	document.Others = others
	return document, err
}

// parseMap parses the YAML of a map; nil for nothing. Errors name what the text is of, and what it must be.
func parseMap(of string, data []byte, must string) (map[string]any, error) {
	tree, err := ParseYAML(data)
	content, ok := tree.(map[string]any)
	if err == nil && !ok && tree != nil {
		err = fmt.Errorf("%s, is %s", must, describe(tree))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", of, err)
	}
	return content, nil
}

// ParseConfigMap parses the data of the ConfigMap (D10–D12): sections are YAML texts, flags are the
// texts true and false. The error names every bad key, and the document is then empty: a ConfigMap
// is refused as a whole (D16).
func ParseConfigMap(data map[string]string) (Document, error) {
	return read(data, "ConfigMap key ", "", func(d Document, key, text string) error {
		if isSwitch(key) { // not as YAML, which would accept yes and on for true
			return d.add(key, strings.TrimSpace(text))
		}
		tree, err := ParseYAML([]byte(text))
		if err != nil {
			return err
		}
		return d.add(key, tree)
	})
}

// ParseSecret parses the data of the Secret. It has the form of the ConfigMap without flags and
// maintenance modes: those are no secrets, and only one place may decide which modules run (D40). Nor is true or false
// a section: in the ConfigMap, false disables the module (X12). Errors name every bad key and quote nothing of its
// text.
func ParseSecret(data map[string]string) (map[string]any, error) {
	document, err := read(data, "key ", " of the Secret", func(d Document, key, text string) error {
		if isSwitch(key) {
			return errors.New("flags and maintenance modes belong in the ConfigMap; the Secret holds values only")
		}
		tree, err := ParseYAML([]byte(text))
		if err != nil {
			return withoutContent(err)
		}
		if _, word := flagValue(tree); word {
			return fmt.Errorf("must be a map or a list, is a scalar; to enable or disable a module, set %s in the ConfigMap", FlagKey(key))
		}
		return d.add(key, tree)
	})
	return document.Sections, err
}

// withoutContent keeps of the error of a YAML text only the line where it is, because the message may
// quote the text.
func withoutContent(err error) error {
	if errors.Is(err, errTooLarge) || errors.Is(err, errTooDeep) {
		return err
	}
	if line, _, found := strings.Cut(err.Error(), ":"); found && strings.HasPrefix(line, "line ") {
		return fmt.Errorf("%s: is not valid YAML; its content is not shown", line)
	}
	return errors.New("is not valid YAML, or is too large; its content is not shown")
}

// read makes a document of all keys. before and after are what errors say around a key.
func read[V any](data map[string]V, before, after string, add func(Document, string, V) error) (Document, error) {
	d := Document{Sections: map[string]any{}, Flags: map[string]bool{}, Maintenance: map[string]string{}}
	var problems []error
	for _, key := range sortedKeys(data) {
		if err := add(d, key, data[key]); err != nil {
			problems = append(problems, fmt.Errorf("%s%s%s: %w", before, brief(key), after, err))
		}
	}
	if len(problems) > 0 {
		return Document{}, errors.Join(problems...)
	}
	for key, value := range d.Sections {
		if value != false {
			continue
		}
		// X12: "false" in place of a section switches the module off, unless the flag itself, which is more explicit,
		// is in the same document.
		delete(d.Sections, key)
		if _, explicit := d.Flags[FlagKey(key)]; !explicit {
			d.Flags[FlagKey(key)] = false
		}
	}
	return d, nil
}

// add dispatches on the name of a key. Flags and modes come first, because isKey refuses names with
// their endings.
func (d Document) add(key string, value any) error {
	flag, isFlagValue := flagValue(value)
	switch {
	case isFlag(key) && !isFlagValue:
		return fmt.Errorf("must be true or false, is %s", describe(value))
	case isFlag(key):
		d.Flags[key] = flag
	case isMaintenance(key):
		mode, ok := value.(string)
		if !ok {
			return fmt.Errorf("must be the name of a maintenance mode, is %s", describe(value))
		}
		if mode != "" && mode != NoResourceReconciliation {
			return fmt.Errorf("there is no maintenance mode %q; write %s, or an empty string for none", mode, NoResourceReconciliation)
		}
		d.Maintenance[key] = mode
	case key != GlobalKey && !isKey(key):
		return keyError(key)
	case value == nil:
	case key != GlobalKey && isFlagValue && flag: // people write it to enable a module
		return fmt.Errorf("must be a map or a list, is %s; to enable the module, write %s: true", describe(value), FlagKey(key))
	case key != GlobalKey && isFlagValue:
		d.Sections[key] = false
	default:
		d.Sections[key] = value
		return checkSection(key, value)
	}
	return nil
}

// checkSection refuses values that cannot be a section (D1) and values that only the operator may
// compute (D9).
func checkSection(key string, value any) error {
	global, isMap := value.(map[string]any)
	_, computed := global[enabledModulesKey]
	switch {
	case key == GlobalKey && !isMap:
		return fmt.Errorf("must be a map, is %s", describe(value))
	case key == GlobalKey && computed:
		return fmt.Errorf("%s.%s is computed by the operator and cannot be set; remove it", GlobalKey, enabledModulesKey)
	case !isContainer(value):
		return fmt.Errorf("must be a map or a list, is %s", describe(value))
	}
	return nil
}

// flagValue accepts booleans and the texts true and false (E5, D25).
func flagValue(value any) (flag, ok bool) {
	switch value {
	case true, "true":
		return true, true
	case false, "false":
		return false, true
	}
	return false, false
}

// keyError explains what the key of a section looks like, and proposes the right one when it can be
// guessed.
func keyError(key string) error {
	const rule = "keys are %q, the camelCase name of a module, and that name with Enabled or Maintenance"
	if proposal, err := Key(kebab(key)); err == nil && proposal != key {
		return fmt.Errorf(rule+"; did you mean %s?", GlobalKey, proposal)
	}
	return fmt.Errorf(rule, GlobalKey)
}

// Everything that comes from outside is bounded where it is read (D39). A ConfigMap has at
// most 1 MiB, but its aliases can describe more than there is memory, and each level of nesting
// makes all lines below it longer when they are written.
const (
	// maxSize bounds the text of a document, and the keys and texts in it with all aliases written out, in bytes.
	maxSize = 1 << 20
	// maxNodes bounds the keys and values of a document, counted in the same way.
	maxNodes = 50_000
	// maxDigits bounds integers.
	maxDigits = 100
	// maxDepth bounds how deep lists and maps are nested: functions of this package recurse along
	// them, and so do templates.
	maxDepth = 100
	// maxOperations bounds a patch: each can move all elements of a list.
	maxOperations = 20_000
	// maxProblems bounds what is reported about one text: it may hold nothing but mistakes.
	maxProblems = 100
	// maxWord bounds how much of a text is repeated in a message.
	maxWord = 100
	// maxMessage bounds what is reported about one value, in bytes: a schema may have any number of
	// alternatives.
	maxMessage = 2 << 10
)

var (
	errTooLarge      = fmt.Errorf("the values have more than %d MiB, or more than %d keys and values, with all aliases written out; remove values or aliases", maxSize>>20, maxNodes)
	errTooDeep       = fmt.Errorf("lists and maps are nested more than %d deep; nest them less", maxDepth)
	errTooFilled     = fmt.Errorf("the defaults of the schema would add more than %d MiB, or more than %d keys and values, or never end; make lists shorter, or give fewer defaults for their elements", maxSize>>20, maxNodes)
	errTooManyDigits = fmt.Errorf("an integer has more than %d digits; write it as a string", maxDigits)
)

// joined joins problems with one text, at most maxProblems.
func joined(problems []error) error {
	if len(problems) > maxProblems {
		tooMany := fmt.Errorf("there are more than %d problems; fix these first", maxProblems)
		problems = append(problems[:maxProblems], tooMany)
	}
	return errors.Join(problems...)
}

// CheckSize refuses a text of so many bytes if it is larger than values and schemas may be. Callers
// use it before they read a file.
func CheckSize(bytes int64) error {
	if bytes > maxSize {
		return fmt.Errorf("the text has %d bytes, more than %d MiB; make it smaller", bytes, maxSize>>20)
	}
	return nil
}

// bounded refuses a tree that is too large or too deep.
func bounded(tree any) error {
	switch size, nodes, depth := measure(tree); {
	case size > maxSize || nodes > maxNodes:
		return errTooLarge
	case depth > maxDepth:
		return errTooDeep
	}
	return nil
}

// measure returns the size of the keys and texts of a tree, how many keys and values it has, and its depth. A subtree
// that several places share counts at each of them, as it will be written. It ends when a limit is exceeded.
func measure(tree any) (size, nodes, depth int) {
	nodes = 1
	below := func(child any) {
		if size <= maxSize && nodes <= maxNodes {
			s, n, d := measure(child)
			size, nodes, depth = size+s, nodes+n, max(depth, d)
		}
	}
	switch v := tree.(type) {
	case string:
		size = len(v)
	case json.Number:
		size = len(v)
	case []any:
		for _, child := range v {
			below(child)
		}
		depth++
	case map[string]any:
		for key, child := range v {
			size += len(key)
			below(child)
			nodes++
		}
		depth++
	}
	return size, nodes, depth
}

// brief shortens a text for a message.
func brief(text string) string { return Shorten(text, maxWord) }

// Shorten cuts a text after a number of bytes, not in the middle of a character.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
