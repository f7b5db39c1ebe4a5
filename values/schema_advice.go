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

// checkDefaults compares each default with the schema of the value that it is for.
func (s *schema) checkDefaults() {
	if s.defaults == nil {
		return
	}
	c := &defaultCheck{schema: s, visited: map[*defaults]bool{}}
	c.visit(s.defaults, []*jsonschema.Schema{s.compiled})
	slices.Sort(c.problems)
	s.problems = c.problems
	if c.cut {
		s.problems = append(s.problems[:min(len(s.problems), maxProblems)], fmt.Sprintf("there are more than %d problems with its defaults; fix these first", min(len(s.problems), maxProblems)))
	}
}

// defaultCheck walks through defaults and compiled schemas in parallel. Defaults are collected from
// the author's file and schemas are compiled from its translation, so the walk must find for each
// default which compiled schemas apply to it.
type defaultCheck struct {
	schema   *schema
	visited  map[*defaults]bool
	problems []string
	cut      bool
}

// visit checks the default of one value, for which all the given schemas must hold, and those below
// it. Recursive defaults are visited once, with the schemas of the way that came first.
func (c *defaultCheck) visit(d *defaults, about []*jsonschema.Schema) {
	if d == nil || c.visited[d] || c.cut {
		return
	}
	c.visited[d] = true
	if d.has {
		c.compare(d, about)
	}
	about = alwaysHolding(about)
	for _, name := range sortedKeys(d.properties) {
		c.visit(d.properties[name], collectSchemas(about, func(s *jsonschema.Schema) []*jsonschema.Schema { return propertySchemas(s, name) }))
	}
	for _, p := range d.patterns {
		c.visit(p.fill, collectSchemas(about, func(s *jsonschema.Schema) []*jsonschema.Schema { return patternSchemas(s, p.pattern.String()) }))
	}
	c.visit(d.additional, collectSchemas(about, additionalSchemas))
	c.visit(d.items, collectSchemas(about, itemSchemas))
}

// compare reports what is wrong with a default as it was written, without the defaults below it:
// those are reported at their own place. The report is partial, because other layers may add keys.
func (c *defaultCheck) compare(d *defaults, about []*jsonschema.Schema) {
	const key = "default"
	path, _ := splitPointer(d.from)
	// In a schema with secrets no default is shown: its marks are not followed here.
	hidden := c.schema.marks != nil || secretPath(path)
	r := newReport(c.schema, key, d.written, func(pointer) bool { return hidden })
	r.partial = true
	for _, s := range about {
		_ = r.validate(s, d.written) // a check of values reports what cannot be checked
	}
	for _, v := range r.findings.finish() {
		problem := Shorten(d.from, maxElement) + "/default: "
		if below := strings.TrimPrefix(strings.TrimPrefix(v.Path, key), "."); below != "" {
			problem += below + ": "
		}
		c.problems = append(c.problems, problem+v.Message+"; correct the default, or the schema")
	}
	c.cut = c.cut || len(c.problems) > maxProblems
}

// alwaysHolding adds the schemas that apply to the same value without a condition. For a nullable
// one the condition is that the value is not null, which holds for every default: compileDefaults
// skips nulls.
func alwaysHolding(about []*jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	known := map[*jsonschema.Schema]bool{}
	var add func(s *jsonschema.Schema)
	add = func(s *jsonschema.Schema) {
		if s == nil || known[s] {
			return
		}
		known[s] = true
		all = append(all, s)
		add(s.Ref)
		for _, branch := range s.AllOf {
			add(branch)
		}
		if isNullable(s) {
			add(s.Else)
		}
	}
	for _, s := range about {
		add(s)
	}
	return all
}

// isNullable reports whether the if of a schema is the one that translator.nullable writes.
func isNullable(s *jsonschema.Schema) bool {
	return s.If != nil && s.Then == nil && slices.Equal(s.If.Types, []string{"null"})
}

// collectSchemas returns what below returns for all the given schemas together.
func collectSchemas(about []*jsonschema.Schema, below func(*jsonschema.Schema) []*jsonschema.Schema) []*jsonschema.Schema {
	var found []*jsonschema.Schema
	for _, s := range about {
		found = append(found, below(s)...)
	}
	return found
}

// propertySchemas returns the schemas for the value of a key.
func propertySchemas(s *jsonschema.Schema, key string) []*jsonschema.Schema {
	var found []*jsonschema.Schema
	if property := s.Properties[key]; property != nil {
		found = append(found, property)
	}
	for pattern, property := range s.PatternProperties {
		if pattern.MatchString(key) {
			found = append(found, property)
		}
	}
	if len(found) == 0 {
		return additionalSchemas(s)
	}
	return found
}

func patternSchemas(s *jsonschema.Schema, pattern string) []*jsonschema.Schema {
	for known, property := range s.PatternProperties {
		if known.String() == pattern {
			return []*jsonschema.Schema{property}
		}
	}
	return nil
}

func additionalSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return listOf(additional)
}

func itemSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	items, _ := s.Items.(*jsonschema.Schema)
	return listOf(items)
}

func listOf(s *jsonschema.Schema) []*jsonschema.Schema {
	if s == nil {
		return nil
	}
	return []*jsonschema.Schema{s}
}

// hasMap reports whether another layer can add a key somewhere in a value: the value is a map, or a
// list with one in it.
func hasMap(tree any) bool {
	list, _ := tree.([]any)
	return isMapOf(tree) || slices.ContainsFunc(list, hasMap)
}
