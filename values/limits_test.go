package values

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// bombs are texts that a ConfigMap can hold and that stand for more than there is memory, or for too deep a tree.
func bombs() map[string]string {
	keys := ""
	for i := range 3000 {
		keys += fmt.Sprintf("k%d: 1,", i)
	}
	return map[string]string{
		"a long text":     "big: &a " + strings.Repeat("x", 600<<10) + "\nl: [" + strings.Repeat("*a,", 90_000) + "]\n",
		"a long key":      "big: &a " + strings.Repeat("x", 600<<10) + "\nl: [" + strings.Repeat("{*a : 1},", 30_000) + "]\n",
		"a merged map":    "big: &a {x: " + strings.Repeat("x", 600<<10) + "}\nl: [" + strings.Repeat("{<<: *a},", 30_000) + "]\n",
		"merged keys":     "big: &a {" + keys + "}\nl: [" + strings.Repeat("{<<: *a},", 30_000) + "]\n",
		"aliases of them": "a: &a " + strings.Repeat("x", 1<<10) + "\nb: &b [" + strings.Repeat("*a,", 100) + "]\nc: [" + strings.Repeat("*b,", 100) + "]\n",
		"deep lists":      "l: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"deep maps":       strings.Repeat("{a: ", 9000) + strings.Repeat("}", 9000),
		"deep by aliases": "a: &a " + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "\nb: " + strings.Repeat("[", 60) + "*a" + strings.Repeat("]", 60),
		"only mistakes":   "[" + strings.Repeat("{a,a},", 100_000) + "]",
	}
}

// D39: what is too large or too deep is refused before anything is made of it, with the limit and what to do.
func TestParseYAMLIsBounded(t *testing.T) {
	for name, want := range map[string][]string{
		"a long text":     {"the values have more than 1 MiB, or more than 50000 keys and values, with all aliases written out; remove values or aliases"},
		"a long key":      {"the values have more than 1 MiB"},
		"a merged map":    {"the values have more than 1 MiB"},
		"merged keys":     {"the values have more than 1 MiB"},
		"aliases of them": {"the values have more than 1 MiB"},
		"deep lists":      {"lists and maps are nested more than 100 deep; nest them less"},
		"deep maps":       {"lists and maps are nested more than 100 deep"},
		"deep by aliases": {"lists and maps are nested more than 100 deep"},
		"only mistakes":   {`line 1: key "a" is already set in line 1`},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(bombs()[name])
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := ParseYAML(text)
			runtime.ReadMemStats(&after)
			wantError(t, err, want...)
			if len(err.Error()) > 8<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 500 {
				t.Errorf("%d MiB were allocated", allocated)
			}
		})
	}
}

// D39: what is just within the limits is taken.
func TestLimitsAreWideEnough(t *testing.T) {
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	quarter := "big: &a " + strings.Repeat("x", 1<<18-100) + "\nl: ["
	for text, fits := range map[string]bool{
		nested(100): true, nested(101): false,
		"a: &a " + nested(49) + "\nb: " + strings.Repeat("[", 50) + "*a" + strings.Repeat("]", 50): true,
		"a: &a " + nested(50) + "\nb: " + strings.Repeat("[", 50) + "*a" + strings.Repeat("]", 50): false,
		quarter + "*a, *a, *a]": true, quarter + "*a, *a, *a, *a]": false,
		"[" + strings.Repeat("1,", 49_999) + "]": true, "[" + strings.Repeat("1,", 50_000) + "]": false,
		"a: " + strings.Repeat("x", 1<<20-100): true, "a: " + strings.Repeat("x", 1<<20): false,
	} {
		if _, err := ParseYAML([]byte(text)); (err == nil) != fits {
			t.Errorf("%s: %v", brief(text), err)
		}
	}
	for text, fits := range map[string]bool{
		nested(100): true, nested(101): false, nested(9000): false,
		strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100): true, strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101): false,
		`"` + strings.Repeat("x", 1<<20-2) + `"`: true, `"` + strings.Repeat("x", 1<<20) + `"`: false,
	} {
		if _, err := ParseJSON([]byte(text)); (err == nil) != fits {
			t.Errorf("%s: %v", brief(text), err)
		}
	}
}

// D39: all keys of the ConfigMap are read, those of unknown modules, too, and the bad one is named.
func TestConfigMapIsBounded(t *testing.T) {
	_, err := ParseConfigMap(map[string]string{"one": "a: 1", "unknown": bombs()["a long text"], "other": bombs()["deep lists"]})
	wantError(t, err, "ConfigMap key unknown: the values have more than 1 MiB", "ConfigMap key other: lists and maps are nested")
	_, err = ParseFile("modules/values.yaml", []byte("one:\n  x: &a "+strings.Repeat("x", 600<<10)+"\n  l: ["+strings.Repeat("*a,", 1000)+"]\n"))
	wantError(t, err, "values file modules/values.yaml: the values have more than 1 MiB")
}

// D39: a patch holds not more than a section may, and a section does not grow beyond that.
func TestPatchIsBounded(t *testing.T) {
	const add = `{"op":"add","path":"/m/a","value":`
	text := func(size int) string { return `"` + strings.Repeat("x", size) + `"` }
	doubling, deeper := "", ""
	for i := range 30 {
		doubling += fmt.Sprintf(`{"op":"copy","from":"/m","path":"/m/copy%d"}`, i)
	}
	for i := range 120 {
		deeper += `{"op":"add","path":"/m` + strings.Repeat("/a", i+1) + `","value":{}}`
	}
	back := strings.Repeat(`{"op":"copy","from":"/m/big","path":"/m/copy"}{"op":"remove","path":"/m/copy"}`, 1000)
	section := sectionOf(t, "m", nil, "{big: "+strings.Repeat("x", 1<<18)+", deep: {}}", "") // no patch changes it: each makes another one
	for name, c := range map[string]struct {
		patch string
		want  []string
	}{
		"many operations":            {strings.Repeat(`{"op":"add","path":"/web/a","value":1}`+"\n", 20_001), []string{"the patch has more than 20000 operations"}},
		"a file of 2 MiB":            {add + text(2<<20) + "}", []string{"the text has", "more than 1 MiB"}},
		"copies of copies":           {doubling, []string{"patch operation", "copy /m to /m/copy", "more than 1 MiB"}},
		"copies that do not stay":    {back, []string{"patch operation", "more than 1 MiB"}},
		"a deep value":               {add + strings.Repeat("[", 101) + strings.Repeat("]", 101) + "}", []string{"nested more than 100 deep"}},
		"a value in a deep place":    {add + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", []string{"nested more than 100 deep"}},
		"deeper with each operation": {deeper, []string{"section m after the patch: ", "nested more than 100 deep"}},
		"nothing but mistakes":       {strings.Repeat("{}", 20_000), []string{"patch operation 1: op is missing"}},
		"more than fits":             {add + text(900<<10) + "}", []string{"section m after the patch: the values have more than 1 MiB"}},
		"what fits":                  {add + text(1<<19) + "}", nil},
		"what takes a place":         {`{"op":"add","path":"/m/big","value":` + text(900<<10) + "}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			patch, _, err := ParsePatch([]byte(c.patch))
			if err == nil {
				_, err = section.Patch(patch, Origin{})
			}
			wantError(t, err, c.want...)
		})
	}

	half := patchOf(t, `{"op":"add","path":"/m/list","value":[]}`)
	appending := patchOf(t, `{"op":"add","path":"/m/list/-","value":`+text(1<<17)+"}")
	section, err := section.Patch(half, Origin{})
	for range 5 {
		wantError(t, err)
		section, err = section.Patch(appending, Origin{})
	}
	wantError(t, err)
	wantError(t, second(section.Patch(appending, Origin{})), "section m after the patch", "more than 1 MiB")
	_, err = section.PatchConfig(patchOf(t, `[{"op":"add","path":"/m/x","value":`+text(1<<19)+`}]`), Origin{}, true)
	wantError(t, err)
}

// costOf gives what a function allocates, in MiB, and what it needs of the processor's time.
func costOf(f func()) (mebibytes int, took time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return int((after.TotalAlloc - before.TotalAlloc) >> 20), took
}

// D38, D39: whatever is wrong, however often and by whatever schema, is reported in a message that a person can read,
// with memory for little more than that.
func TestFloods(t *testing.T) {
	withoutRaceDetector(t)
	branches := strings.Repeat("{oneOf: [{type: string}, {type: object, required: [a]}, {enum: [a, b]}, {anyOf: [{type: boolean}, {type: array}]}]},", 8)
	names := func(n int, format string) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, format, i)
		}
		return out.String()
	}
	const ones = 40_000
	for name, c := range map[string]struct {
		schema, values string
		want           []string
	}{
		"nested alternatives": {"{items: {anyOf: [" + branches + "]}}", "[" + strings.Repeat("1,", ones) + "]",
			[]string{"m: cannot be checked: that takes too much work"}},
		"alternatives of alternatives": {
			"{definitions: {a: {anyOf: [" + strings.Repeat("{$ref: '#/definitions/b'},{items: {$ref: '#/definitions/a'}, type: array},", 5) + "]}, b: {oneOf: [{type: string}, {type: boolean}, {type: array, items: {$ref: '#/definitions/a'}}]}}, items: {$ref: '#/definitions/a'}}",
			"[" + strings.Repeat("[[[1],[2]],3],", 5000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"a branch for each level": {
			"{definitions: {a: {anyOf: [{type: array, items: {$ref: '#/definitions/a'}}, {type: array, maxItems: 9, items: {$ref: '#/definitions/a'}}]}}, $ref: '#/definitions/a'}",
			strings.Repeat("[", 99) + "1" + strings.Repeat("]", 99), []string{"m: cannot be checked: that takes too much work"}},
		"a long key":      {"{additionalProperties: {items: {type: string}}}", "? " + strings.Repeat("k", 900_000) + "\n: [" + strings.Repeat("1,", 40_000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"an enum":         {"{items: {enum: [" + names(20_000, "value%d,") + "]}}", "[" + strings.Repeat("x,", 20_000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"an enum of maps": {"{items: {enum: [" + names(2000, "{a: {b: %d}},") + "]}}", "[" + strings.Repeat("{a: {b: -1}},", 5000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"required keys":   {"{items: {required: [" + names(30_000, "k%d,") + "]}}", "[" + strings.Repeat("{},", 30_000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"keys and patterns": {"{patternProperties: {" + names(2000, "^a.*%d$: {type: string},") + "}}",
			"{" + names(20_000, "x%d: 1,") + "}", []string{"m: cannot be checked: that takes too much work"}},
		"names of keys":       {"{propertyNames: {anyOf: [" + names(100, "{pattern: '^a.*%d$'},") + "]}}", "{" + names(20_000, "x%d: 1,") + "}", []string{"m: cannot be checked: that takes too much work"}},
		"dependencies":        {"{items: {dependentRequired: {" + names(10_000, "a%d: [b],") + "}}}", "[" + strings.Repeat("{a1: 1},", 9_000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"a pattern":           {"{items: {pattern: '^(.{500}x?){1,2}z$'}}", "[" + strings.Repeat("a", 1_000_000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"a name":              {"{items: {pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'}}", "[" + strings.Repeat("a", 1_000_000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"a long pattern":      {"{items: {pattern: '" + strings.Repeat("a", 100_000) + "'}}", "[" + strings.Repeat("1, b,", 20_000) + "]", []string{"m: cannot be checked: that takes too much work"}},
		"long texts":          {"{items: {maxLength: 1}}", "[" + strings.Repeat(strings.Repeat("a", 40_000)+",", 25) + "]", []string{"m[0]: must have at most 1 characters"}},
		"long numbers":        {"{items: {maximum: 1, multipleOf: 3}}", "[" + strings.Repeat("1"+strings.Repeat("0", 99)+",", 9_000) + "]", []string{"m[0]: must be at most 1, is 1000", "…"}},
		"patterns in values":  {"{items: {format: regex}}", "['(', " + strings.Repeat("'"+strings.Repeat(`(.{10}){90}`, 1000)+"',", 50) + "]", []string{"m[0]: must have the format regex"}},
		"elements that equal": {"{uniqueItems: true}", "[" + names(12_000, "{a: %d},") + "{a: 0}]", []string{"m: must not have equal elements"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := compiledSchema(t, yamlTree(t, c.schema))
			values := yamlTree(t, c.values)
			var err error
			mebibytes, took := costOf(func() { err = s.validate("m", values, secretPath) })
			t.Logf("%d MiB allocated, %v", mebibytes, took)
			wantError(t, err, c.want...)
			if size := len(err.Error()); size > 300<<10 {
				t.Errorf("the error has %d bytes", size)
			}
			if mebibytes > 100 {
				t.Errorf("%d MiB were allocated", mebibytes)
			}
		})
	}
}

// D39: a schema that describes more than it seems is refused, and its error is short.
func TestSchemasAreBounded(t *testing.T) {
	withoutRaceDetector(t)
	var chain, sets, wrong, inner strings.Builder
	for i := range 4_000 {
		fmt.Fprintf(&chain, "  d%d: {allOf: [{$ref: '#/definitions/d%d'}], properties: {p%d: {}}}\n", i, i+1, i)
		fmt.Fprintf(&wrong, "a%d: {type: 5, anyOf: {}, minLength: x},", i)
	}
	for i := range 24 { // the sets of definitions that speak about the same value double with each level
		next := (i + 1) % 24
		fmt.Fprintf(&sets, "  d%d: {properties: {a: {anyOf: [{$ref: '#/definitions/d%d'}%s]}, b: {$ref: '#/definitions/d%d'}}}\n", i, next, map[bool]string{true: ", {$ref: '#/definitions/d0'}"}[i%2 == 0], next)
	}
	for i := range 40 {
		fmt.Fprintf(&inner, "  d%d: {type: object, properties: {a: {default: {}, $ref: '#/definitions/d%d'}, b: {default: {}, $ref: '#/definitions/d%d'}}}\n", i, i+1, i+1)
	}
	for name, c := range map[string]struct {
		schema string
		want   []string
	}{
		"a chain of references":     {"definitions:\n" + chain.String() + "  d4000: {}\n$ref: '#/definitions/d0'\n", nil},
		"sets of definitions":       {"definitions:\n" + sets.String() + "anyOf: [{$ref: '#/definitions/d0'}, {$ref: '#/definitions/d1'}]\n", nil},
		"nothing but mistakes":      {"{properties: {" + wrong.String() + "}}", []string{"/properties/a0/anyOf: expected array, but got", "more than 100 problems"}},
		"defaults that double":      {"definitions:\n" + inner.String() + "  d40: {type: integer, default: 1}\n$ref: '#/definitions/d0'\n", []string{"the defaults of the schema would add more than 1 MiB, or more than 50000 keys and values, or never end"}},
		"a default that never ends": {"{definitions: {d: {type: object, properties: {child: {$ref: '#/definitions/d', default: {}}}}}, properties: {a: {$ref: '#/definitions/d', default: {}}}}", []string{"schema config-values.yaml", "or never end"}},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			mebibytes, took := costOf(func() {
				var schemas *Schemas
				if schemas, err = CompileSchemas(SchemaFile{"config-values.yaml", []byte(c.schema)}, SchemaFile{}); err == nil {
					_, err = NewSection("m", schemas)
				}
			})
			t.Logf("%d MiB allocated, %v", mebibytes, took)
			if c.want != nil {
				wantError(t, err, c.want...)
			}
			if err != nil && len(err.Error()) > 64<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if mebibytes > 500 {
				t.Errorf("%d MiB were allocated", mebibytes)
			}
		})
	}
}

// D39, D34: a list of the ConfigMap cannot make defaults fill the memory.
func TestDefaultsAreBounded(t *testing.T) {
	withoutRaceDetector(t)
	var defaults strings.Builder
	for i := range 100 {
		fmt.Fprintf(&defaults, "k%d: {type: string, default: some text of a few bytes},", i)
	}
	schemas := schemasOf(t, "{type: object, properties: {l: {type: array, items: {type: object, properties: {"+defaults.String()+"}}}}}", "")
	section := sectionOf(t, "m", schemas, "{l: [{}, {}]}", "")
	list := yamlTree(t, "{l: ["+strings.Repeat("{},", 20_000)+"]}")
	var err error
	mebibytes, _ := costOf(func() { _, err = section.WithConfig(list, Origin{}) })
	wantError(t, err, "section m: schema openapi/config-values.yaml: the defaults of the schema would add more than 1 MiB")
	if mebibytes > 100 {
		t.Errorf("%d MiB were allocated", mebibytes)
	}
	_, err = section.WithConfig(yamlTree(t, "{l: ["+strings.Repeat("{},", 200)+"]}"), Origin{})
	wantError(t, err)
}

// D39, D4: integers of any size, up to a hundred digits.
func TestDigitsAreBounded(t *testing.T) {
	for digits, fits := range map[int]bool{100: true, 101: false, 1_000_000: false} {
		text := strings.Repeat("1", digits)
		for form, parse := range map[string]func([]byte) (any, error){"YAML": ParseYAML, "JSON": ParseJSON} {
			tree, err := parse([]byte("[" + text + "]"))
			if (err == nil) != fits {
				t.Fatalf("%s of %d digits: %v", form, digits, err)
			}
			if !fits {
				wantError(t, err, "an integer has more than 100 digits")
			} else if tree.([]any)[0] != json.Number(text) {
				t.Errorf("%s of %d digits is %v", form, digits, tree)
			}
		}
	}
	_, err := ParseJSON([]byte("1" + strings.Repeat("0", 1_000_000) + ".5"))
	wantError(t, err, "does not fit into 64 bits")
	if len(err.Error()) > 1000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

func withoutRaceDetector(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("memory is measured without the race detector")
	}
}
