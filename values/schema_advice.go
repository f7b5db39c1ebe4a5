package values

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Problems names the defaults that cannot be valid, with file, place and reason (D34): each run
// that fills in such a default fails, and blames a value that no user wrote. A key that is missing
// in a default is no problem, because another layer may have it. Schemas with problems still
// compile, so that an operator starts with them.
func (s *Schemas) Problems() []string {
	if s == nil {
		return nil
	}
	var texts []string
	known := map[string]bool{}
	for _, schema := range s.files() {
		for _, p := range schema.problems {
			if !known[p] { // values.yaml may have it from config-values.yaml
				known[p] = true
				texts = append(texts, fmt.Sprintf("schema %s: %s", schema.path, p))
			}
		}
	}
	return texts
}

// Warnings names the rules in the schemas that are not evaluated (D35), in one sentence for each
// file.
func (s *Schemas) Warnings() []string {
	if s == nil {
		return nil
	}
	var texts []string
	known := map[idleRule]bool{}
	for _, schema := range s.files() {
		var rules []string
		for _, rule := range schema.idle {
			if !known[rule] {
				known[rule] = true
				rules = append(rules, rule.String())
			}
		}
		const shown = 5
		if more := len(rules) - shown; more > 0 {
			rules = append(rules[:shown], fmt.Sprintf("and %d more", more))
		}
		if len(rules) > 0 {
			texts = append(texts, fmt.Sprintf("schema %s has rules that are not evaluated: %s; write them with keywords of OpenAPI v3, or have a hook check the values", schema.path, strings.Join(rules, ", ")))
		}
	}
	return texts
}

// files returns the schemas as their authors wrote them. The one for Helm is values.yaml again.
func (s *Schemas) files() []*schema {
	return slices.DeleteFunc([]*schema{s.config, s.values}, func(one *schema) bool { return one == nil })
}

// idleRule is a key of a schema that looks like a rule and has no effect. meant is the keyword that
// was probably meant; "" for none.
type idleRule struct{ at, key, meant string }

// String implements fmt.Stringer.
func (r idleRule) String() string {
	text := fmt.Sprintf("%s at %s", Shorten(r.key, maxElement), Shorten(orRoot(r.at), maxElement))
	if r.meant != "" {
		text += ", did you mean " + r.meant + "?"
	}
	return text
}

// look records the keys of a schema that look like rules and are not evaluated: rules of other
// dialects, keywords of newer drafts, and misspelled ones. Other unknown keys are silent, because
// many only describe.
func (t *translator) look(p place) {
	for key := range p.node {
		rule := idleRule{at: p.at, key: key}
		switch known := t.keywords[key]; {
		case known:
			continue
		case strings.HasPrefix(key, "x-"):
			if !saysRule(key) {
				continue
			}
		case slices.Contains([]string{"dependencies", "prefixItems", "$dynamicRef", "$recursiveRef"}, key):
		default:
			if t.guesses++; t.guesses > maxProblems { // a guess compares with all keywords
				continue
			}
			if rule.meant = Nearest(key, slices.Sorted(maps.Keys(t.keywords))); rule.meant == "" {
				continue
			}
		}
		t.idle[rule] = true
	}
}

// saysRule reports whether an x- key decides which values are valid, as far as its name shows. Keys
// of Kubernetes that do so are listed.
func saysRule(key string) bool {
	switch key {
	case "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-list-type":
		return true
	}
	return !strings.HasPrefix(key, "x-doc") && (strings.Contains(key, "validation") || strings.HasSuffix(key, "-rules"))
}

// idleRules returns what look has found, in the order of its places.
func (t *translator) idleRules() []idleRule {
	return slices.SortedFunc(maps.Keys(t.idle), func(a, b idleRule) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key)) })
}

// keywords returns the keys that have a meaning here, or that only describe.
func keywords() map[string]bool {
	known := map[string]bool{}
	for _, key := range slices.Concat(verbatim(), strings.Fields(`
		properties patternProperties additionalProperties items additionalItems contains propertyNames unevaluatedProperties
		unevaluatedItems exclusiveMinimum exclusiveMaximum allOf anyOf oneOf not if then else dependentSchemas $ref nullable
		default definitions title description example examples deprecated readOnly writeOnly externalDocs xml discriminator
		$schema $id id $anchor $comment $defs components openapi info paths contentEncoding contentMediaType contentSchema`),
		[]string{extendKey, requiredForHelmKey, secretKey}) {
		known[key] = true
	}
	return known
}

// checkDefaults compares each default with the schema where it is written. Keys that it lacks are no problem, because
// other layers may add them. In a schema with secrets no default is shown: its marks are not followed here.
func (s *schema) checkDefaults(written map[string]any, origins map[string]string) {
	const key = "default"
	schemas := map[string][]*jsonschema.Schema{}
	eachSchema(s.compiled, map[*jsonschema.Schema]bool{}, func(one *jsonschema.Schema) {
		_, location, _ := strings.Cut(one.Location, "#")
		location = strings.ReplaceAll(location, "/else/allOf/", "/allOf/") // see translator.nullable
		at := origin(located(location).String(), origins)
		schemas[at] = append(schemas[at], one)
	})
	for _, at := range sortedKeys(written) {
		path, _ := splitPointer(at)
		hidden := s.marks != nil || secretPath(path)
		r := newReport(s, key, written[at], func(pointer) bool { return hidden })
		r.partial = true
		for _, one := range schemas[orRoot(at)] {
			_ = r.validate(one, written[at]) // a check of values reports what cannot be checked
		}
		for _, v := range r.findings.finish() {
			problem := Shorten(at, maxElement) + "/default: "
			if below := strings.TrimPrefix(strings.TrimPrefix(v.Path, key), "."); below != "" {
				problem += below + ": "
			}
			s.problems = append(s.problems, problem+v.Message+"; correct the default, or the schema")
		}
		if len(s.problems) > maxProblems {
			more := fmt.Sprintf("there are more than %d problems with its defaults; fix these first", maxProblems)
			s.problems = append(s.problems[:maxProblems], more)
			return
		}
	}
}

// eachSchema visits the schemas in which compileDefaults looks for defaults.
func eachSchema(s *jsonschema.Schema, known map[*jsonschema.Schema]bool, visit func(*jsonschema.Schema)) {
	if s == nil || known[s] {
		return
	}
	known[s] = true
	visit(s)
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	items, _ := s.Items.(*jsonschema.Schema)
	for _, below := range slices.Concat([]*jsonschema.Schema{s.Ref, s.Else, additional, items}, s.AllOf,
		slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties))) {
		eachSchema(below, known, visit)
	}
}

// hasMap reports whether another layer can add a key somewhere in a value: the value is a map, or a
// list with one in it.
func hasMap(tree any) bool {
	list, _ := tree.([]any)
	return isMapOf(tree) || slices.ContainsFunc(list, hasMap)
}
