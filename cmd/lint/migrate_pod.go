package lint

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"addon-operator/cmd/cli"
)

// image finds what the Dockerfile next to the modules takes from the existing operator: its image
// as a base, and variables that this operator does not serve. It reads lines, not the language: ARG
// and heredocs are not followed.
func (m *migration) image() (all []Finding) {
	src := m.found.src.of(m.dockerfile)
	if m.dockerfile == "" {
		return nil
	}
	_, c := cli.Root("", nothingSet)
	from, set := regexp.MustCompile(`(^|/)flant/(addon|shell)-operator\b`), regexp.MustCompile(`([A-Z][A-Z0-9_]+)(?:=|\s+)("[^"]*"|[^\s\\]+)`)
	env := false
	for i, line := range src.lines {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		// i counts from 0 and lines from 1, so line i is the one before: does it continue here?
		env = strings.EqualFold(word, "ENV") || env && strings.HasSuffix(strings.TrimSpace(src.line(i)), `\`)
		if strings.EqualFold(word, "FROM") && slices.ContainsFunc(strings.Fields(rest), from.MatchString) {
			all = append(all, m.at(Error, m.dockerfile, src.start(i+1), "builds on the image of the existing operator; build on that of this one (docs/running.md, Image)"))
		}
		if !env {
			continue
		}
		if strings.EqualFold(word, "ENV") {
			line = rest
		}
		for _, found := range set.FindAllStringSubmatch(line, -1) {
			all = append(all, m.variable(c, m.dockerfile, src.word(i+1, found[1]), found[1], strings.Trim(found[2], `"`))...)
		}
	}
	return all
}

// nothingSet is an empty environment: that of this process is not the one of the Pod.
func nothingSet(string) (string, bool) { return "", false }

// variable returns what to do about an environment variable that this operator does not serve: an
// error when it refuses to start with it. The value is not shown.
func (m *migration) variable(c *cli.Config, file string, at place, name, value string) []Finding {
	advice, refused := c.Unserved(name, value)
	if strings.HasPrefix(name, "VALIDATING_WEBHOOK_") || strings.HasPrefix(name, "CONVERSION_WEBHOOK_") {
		advice = "webhooks are not served (docs/hooks.md, What is not served); remove it"
	}
	if advice == "" {
		return nil
	}
	severity, text := Warning, name+" is not served"
	if refused {
		severity, text = Error, "the operator does not start with "+name
	}
	between := ": "
	if !strings.Contains(advice, "; ") { // what follows the last semicolon is the fix
		between = "; "
	}
	return []Finding{m.at(severity, file, at, text+between+advice)}
}

// deployment finds options in the manifest of a Pod that have another name here, or do not exist.
// All documents of the file are searched. No line of it is shown: variables may hold secrets.
func (m *migration) deployment() (all []Finding) {
	if m.Deployment == "" {
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(readSource(m.Deployment)))
	var containers []*yaml.Node
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return []Finding{m.at(Error, m.Deployment, place{}, "cannot be read: "+err.Error())}
		}
		containers = append(containers, containersIn(&document, 0)...)
	}
	for _, container := range containers {
		all = append(all, m.container(container)...)
	}
	if len(containers) == 0 {
		all = append(all, m.at(Error, m.Deployment, place{}, "has no container of an operator; pass the manifest of its Deployment or Pod"))
	}
	return all
}

// containersIn finds the containers of operators at any depth, as in the template of a Deployment
// or in a List. Other containers, such as sidecars, have options of their own.
func containersIn(node *yaml.Node, depth int) (all []*yaml.Node) {
	if depth > maxDepth {
		return nil
	}
	if node.Kind == yaml.MappingNode {
		if _, list := child(node, "containers"); list != nil && list.Kind == yaml.SequenceNode {
			for _, container := range list.Content {
				if isOperator(container) {
					all = append(all, container)
				}
			}
		}
	}
	for _, next := range node.Content {
		all = append(all, containersIn(next, depth+1)...)
	}
	return all
}

// isOperator reports whether a container has the image, the program or the variables of an
// operator. An image may have any name, so each of the three is enough.
func isOperator(container *yaml.Node) bool {
	text := ""
	for _, key := range []string{"image", "command", "args"} {
		if _, value := child(container, key); value != nil {
			text += " " + value.Value
			for _, word := range value.Content {
				text += " " + word.Value
			}
		}
	}
	return regexp.MustCompile(`(addon|shell)-operator`).MatchString(text) ||
		slices.ContainsFunc(variablesOf(container), func(v variable) bool {
			return regexp.MustCompile(`^((ADDON|SHELL)_OPERATOR_|MODULES_DIR$|GLOBAL_HOOKS_DIR$)`).MatchString(v.name)
		})
}

// variable is an environment variable of a container.
type variable struct {
	name, value string
	elsewhere   bool // its value is not in the manifest
	at          place
}

// variablesOf returns the variables of a container in their order; envFrom is not followed.
func variablesOf(container *yaml.Node) (all []variable) {
	_, list := child(container, "env")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, entry := range list.Content {
		_, name := child(entry, "name")
		if name == nil {
			continue
		}
		v := variable{name: name.Value, at: place{name.Line, name.Column}}
		if _, value := child(entry, "value"); value != nil {
			v.value = value.Value
		}
		if _, from := child(entry, "valueFrom"); from != nil {
			v.value, v.elsewhere = "?", true
		}
		all = append(all, v)
	}
	return all
}

// otherFlags maps flags of the existing operators that do not exist here to what to do about them.
func otherFlags() map[string]string {
	none, webhooks := "remove it", "webhooks are not served (docs/hooks.md, What is not served), remove it"
	return map[string]string{
		"debug-http-addr":                  "write --debug-address",
		"hooks-dir":                        "write --global-hooks-dir",
		"listen-address":                   "write --prometheus-listen-address",
		"listen-port":                      "write --prometheus-listen-port",
		"strict-check-values-mode-enabled": none,
		"applied-module-extenders":         none,
		"helm-monitor-kube-client-qps":     none,
		"helm-monitor-kube-client-burst":   none,
		"debug-kubernetes-api":             "write --log-level=debug",
		"admission-server-enabled":         webhooks,
		"admission-server-listen-port":     webhooks,
		"admission-server-certs-dir":       webhooks,
	}
}

// container checks command, flags and variables of a container as the start of the operator would:
// it gives them to the options of the program, and reports what these refuse.
func (m *migration) container(node *yaml.Node) (all []Finding) {
	given := variablesOf(node)
	// A value from elsewhere is unknown and must not be parsed. Only the namespace is taken as
	// given: without one the start is refused (B8), and it usually comes from the downward API.
	root, c := cli.Root("", func(name string) (string, bool) {
		i := slices.IndexFunc(given, func(v variable) bool { return v.name == name && (!v.elsewhere || name == "ADDON_OPERATOR_NAMESPACE") })
		if i < 0 {
			return "", false
		}
		return given[i].value, true
	})
	for _, v := range given {
		all = append(all, m.variable(c, m.Deployment, v.at, v.name, v.value)...)
	}
	for _, key := range []string{"command", "args"} {
		if _, words := child(node, key); words != nil {
			all = append(all, m.words(root.PersistentFlags(), words.Content)...)
		}
	}
	// In this order, since Complete checks what Read has set: its errors would follow from the
	// first.
	problems := joined(c.Read())
	if problems == nil {
		problems = joined(errors.Join(c.Complete(), c.CheckDebugAddress()))
	}
	for _, err := range problems {
		text := err.Error()
		if !strings.HasPrefix(text, "environment variable ") || strings.Contains(text, "=") { // the others are reported above
			all = append(all, m.at(Error, m.Deployment, place{node.Line, node.Column}, "the operator does not start: "+text))
		}
	}
	return all
}

// words checks the words of a command line, and sets its flags, for the checks of the whole that
// follow. A flag takes the next word as its value unless it may stand alone.
func (m *migration) words(flags *pflag.FlagSet, words []*yaml.Node) (all []Finding) {
	for i, word := range words {
		say := func(text string) {
			all = append(all, m.at(Error, m.Deployment, place{word.Line, word.Column}, text))
		}
		// The image of the existing operators has its program there.
		if word.Value == "/addon-operator" || word.Value == "/shell-operator" {
			say("the image has no program " + word.Value + "; omit command, or write /bin/addon-operator")
		}
		flag, value, hasValue := strings.Cut(word.Value, "=")
		name, isFlag := strings.CutPrefix(flag, "--")
		if !isFlag || name == "" {
			continue
		}
		known := flags.Lookup(name)
		if known == nil {
			say("there is no flag --" + name + ", so the operator does not start; " + cmp.Or(otherFlags()[name], "addon-operator --help lists all"))
			continue
		}
		// A flag that may stand alone, such as a boolean, does not take the next word.
		if !hasValue && known.NoOptDefVal != "" {
			value = known.NoOptDefVal
		} else if !hasValue && i+1 < len(words) {
			value = words[i+1].Value
		}
		if err := flags.Set(name, value); err != nil {
			say("the operator does not start with this flag: " + err.Error() + "; correct the value")
		}
	}
	return all
}
