package charts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// H23: what nothing reads is named, and what may be read is not.
func TestUnread(t *testing.T) {
	const (
		sub     = "-- charts/sub/Chart.yaml --\n{apiVersion: v2, name: sub, version: 0.1.0}\n-- charts/sub/values.yaml --\nsize: 1\nimage: {tag: a}\n-- charts/sub/templates/a.yaml --\n{{ .Values.size }}{{ .Values.image.tag }}{{ .Values.deep.er.most }}\n"
		wrapper = "-- Chart.yaml --\n{apiVersion: v2, name: wrapper, version: 0.1.0}\n" + sub
		aliased = "-- Chart.yaml --\n{apiVersion: v2, name: wrapper, version: 0.1.0, dependencies: [{name: sub, alias: other, version: 0.1.0, condition: 'my.switch,my.second', tags: [t]}]}\n"
	)
	for name, c := range map[string]struct {
		files, section string // of the module m
		want           []string
	}{
		"read":                {"-- templates/a.yaml --\n{{ .Values.m.a }}{{ $.Values.m.b.c }}", "a: {x: 1}\nb: {c: 1}", nil},
		"a typo":              {"-- templates/a.yaml --\n{{ .Values.m.size }}", "sise: 1", []string{"m.sise"}},
		"below what is read":  {"-- templates/a.yaml --\n{{ .Values.m.image.tag }}", "image: {tga: a, tag: b}", []string{"m.image.tga"}},
		"a whole section":     {"-- templates/a.yaml --\n{{ toYaml .Values.m }}", "any: 1", nil},
		"all values":          {"-- templates/a.yaml --\n{{ toYaml .Values }}", "any: 1", nil},
		"all, by a pipe":      {"-- templates/a.yaml --\n{{ .Values | toYaml }}", "any: 1", nil},
		"with":                {"-- templates/a.yaml --\n{{ with .Values.m.a }}{{ .b }}{{ end }}", "a: {b: 1, c: 2}\nd: 1", []string{"m.d"}},
		"with all":            {"-- templates/a.yaml --\n{{ with .Values }}{{ .m.a }}{{ end }}", "a: 1\nd: 1", nil},
		"a variable":          {"-- templates/a.yaml --\n{{ $v := .Values.m }}{{ $v.a }}", "b: 1", nil},
		"index":               {"-- templates/a.yaml --\n{{ index .Values \"m\" \"a-b\" }}{{ index .Values.m.c 0 }}", "a-b: 1\nc: [1]\nd: 1", []string{"m.d"}},
		"index by a variable": {"-- templates/a.yaml --\n{{ $k := \"x\" }}{{ index .Values.m $k }}", "any: 1", nil},
		"hasKey and get":      {"-- templates/a.yaml --\n{{ hasKey .Values.m \"a\" }}{{ get .Values.m \"b\" }}{{ dig \"c\" \"d\" 1 .Values.m }}", "a: 1\nb: 1\nc: {d: 1, e: 1}\nf: 1", []string{"m.c.e", "m.f"}},
		"null-safe":           {"-- templates/a.yaml --\n{{ ((.Values.m).a).b }}", "a: {b: 1, c: 1}", []string{"m.a.c"}},
		"a condition":         {"-- templates/a.yaml --\n{{ if and .Values.m.a (not .Values.m.b) }}{{ else if .Values.m.c }}{{ end }}", "a: 1\nb: 1\nc: 1\nd: 1", []string{"m.d"}},
		"a helper":            {"-- templates/_h.tpl --\n{{ define \"h\" }}{{ .Values.m.a }}{{ end }}\n-- templates/a.yaml --\n{{ include \"h\" . }}{{ template \"h\" (dict \"Values\" $.Values) }}", "a: 1\nb: 1", []string{"m.b"}},
		"another context":     {"-- templates/a.yaml --\n{{ .ctx.Values.m.a }}", "a: 1\nb: 1", []string{"m.b"}},
		"values of a helper":  {"-- templates/a.yaml --\n{{ $v := .Values.m.sub }}{{ include \"h\" (dict \"Values\" $v) }}", "sub: {x: 1}\nb: 1", []string{"m.b"}},
		"another name":        {"-- templates/a.yaml --\n{{ include \"h\" (dict \"v\" .Values) }}", "b: 1", nil},
		"looked for by name":  {"-- templates/a.yaml --\n{{ get $ \"Values\" }}", "b: 1", nil},
		"tpl of a value":      {"-- templates/a.yaml --\n{{ tpl .Values.m.text . }}", "text: '{{ .Values.m.a }}'\na: 1\nb: 1", []string{"m.b"}},
		"a text without tpl":  {"-- templates/a.yaml --\n{{ .Values.m.text }}", "text: '{{ .Values.m.a }}'\na: 1", []string{"m.a"}},
		"tpl of a file":       {"-- templates/a.yaml --\n{{ tpl (.Files.Get \"f\") . }}\n-- f --\n{{ .Values.m.a }}", "a: 1\nb: 1", []string{"m.b"}},
		"broken":              {"-- templates/a.yaml --\n{{ if }}", "b: 1", nil},
		"only the notes":      {"-- templates/NOTES.txt --\n{{ .Values.m.a }}", "a: 1", nil},
		"a list":              {"-- templates/a.yaml --\n{{ .Values.m.a.b }}", "a: [1]", nil},
		"dropped in":          {"-- Chart.yaml --\n{apiVersion: v2, name: m, version: 0.1.0}\n-- templates/a.yaml --\n{{ .Values.size }}", "size: 1", []string{"m: the chart reads .Values.size, not .Values.m.size; put the unchanged chart into the directory chart/"}},
		"nothing reads it":    {"-- templates/a.yaml --\nx", "size: 1", []string{"m: no template reads .Values.m"}},
		"empty":               {"-- templates/a.yaml --\nx", "{}", nil},
		"of another name":     {wrapper, "size: 2", []string{"m: the subchart sub reads the section sub, which only a values.yaml can set"}},
		"below a subchart":    {strings.ReplaceAll(wrapper, "sub", "m"), "sise: 2\nimage: {tag: b, tga: c}\nglobal: {a: 1}\ndeep: {er: {x: 1, most: 1}}", []string{"m.deep.er.x", "m.image.tga", "m.sise"}},
		"in values.yaml":      {wrapper + "-- values.yaml --\nsub: {sise: 1, size: 2}\nother: 1\n", "{}", []string{"other", "sub.sise"}},
		"an alias":            {strings.Replace(wrapper, "-- Chart.yaml --\n{apiVersion: v2, name: wrapper, version: 0.1.0}\n", aliased, 1) + "-- values.yaml --\nother: {sise: 1, size: 2}\nmy: {switch: true}\ntags: {t: true}\n", "{}", []string{"other.sise"}},
		"in chart/":           {"-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 0.1.0}\n-- chart/values.yaml --\nsize: 1\n" + strings.ReplaceAll(strings.ReplaceAll(sub, "-- charts", "-- chart/charts"), "size", "tall") + "-- chart/templates/a.yaml --\n{{ .Values.size }}\n", "size: 2\nsise: 3\nsub: {tall: 1, tal: 2}\nglobal: {x: 1}", []string{"m.global", "m.sise", "m.sub.tal"}},
		"global of a chart":   {"-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0, condition: global.sub.enabled}]}\n-- chart/values.yaml --\nglobal: {known: 1}\n-- chart/charts/sub/Chart.yaml --\n{apiVersion: v2, name: sub, version: 0.1.0}\n-- chart/charts/sub/values.yaml --\nglobal: {theirs: 1}\n-- chart/charts/sub/templates/a.yaml --\n{{ .Values.global.image.tag }}\n-- values.yaml --\nglobal: {image: {tag: a, tga: b}, zone: a, known: 2, theirs: 2, sub: {enabled: true}}\n", "global: {image: {tag: a, tga: b}, zone: a, known: 2, theirs: 2, sub: {enabled: true}}\nsub: {global: {any: 1}}", []string{"global.image.tga", "global.zone", "m.global.image.tga", "m.global.zone"}},
		"all of global":       {"-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 0.1.0}\n-- chart/templates/a.yaml --\n{{ toYaml .Values.global }}\n-- values.yaml --\nglobal: {a: 1}\n", "global: {b: 1}", nil},
		"no global at all":    {"-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 0.1.0}\n-- values.yaml --\nglobal: {a: 1}\n", "{}", []string{"global.a"}},
		"of the parent":       {wrapper + "-- templates/b.yaml --\n{{ .Values.sub.extra }}{{ .Subcharts.sub.Values.more }}\n-- values.yaml --\nsub: {extra: 1}\n", "{}", nil},
		"imported":            {strings.Replace(wrapper, "{apiVersion: v2, name: wrapper, version: 0.1.0}", "{apiVersion: v2, name: wrapper, version: 0.1.0, dependencies: [{name: sub, version: 0.1.0, import-values: [data]}]}", 1) + "-- values.yaml --\nsub: {exports: {data: {a: 1}}}\n", "{}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := new(Cache).Load(moduleOf(t, "m", c.files))
			if err != nil {
				t.Fatal(err)
			}
			section := valuesOf(t, c.section)
			var got []string
			for _, u := range loaded.Unread(section, map[string]any{"m": section}) {
				got = append(got, strings.TrimSuffix(u.Path+": "+u.Hint, ": "))
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Public charts read their values: CHARTS=DIR. Each is a subchart of its name, and the module's own chart.
func TestUnreadOfForeignCharts(t *testing.T) {
	eachForeignChart(t, func(t *testing.T, dir string, values map[string]any) {
		name := filepath.Base(dir)
		for _, place := range []string{"charts/" + name, "chart"} {
			m := moduleOf(t, name, "")
			if place != "chart" {
				write(t, m, "Chart.yaml", "{apiVersion: v2, name: wrapper, version: 0.1.0}\n")
			}
			if err := os.CopyFS(filepath.Join(m.Dir, place), os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			loaded, err := new(Cache).Load(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range loaded.Unread(values, map[string]any{name: values}) {
				t.Errorf("%s: %s %s", place, u.Path, u.Hint)
			}
			wrong := map[string]any{"thisIsNoKeyOfAnyChart": true}
			if found := loaded.Unread(wrong, map[string]any{name: wrong}); len(found) != 1 {
				t.Logf("%s: a wrong key is not noticed", place)
			}
		}
	})
}

// H23: a value of the global of all modules is read when one of their charts reads it.
func TestUnreadGlobal(t *testing.T) {
	charts := map[string]string{
		"web":  "-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 0.1.0}\n-- chart/templates/a.yaml --\n{{ .Values.global.image.tag }}",
		"own":  "-- templates/a.yaml --\n{{ .Values.global.zone }}{{ .Values.own.a }}",
		"sub":  "-- Chart.yaml --\n{apiVersion: v2, name: sub, version: 0.1.0}\n-- charts/deep/Chart.yaml --\n{apiVersion: v2, name: deep, version: 0.1.0}\n-- charts/deep/values.yaml --\nglobal: {default: 1}\n-- charts/deep/templates/a.yaml --\n{{ .Values.global.deep }}",
		"all":  "-- templates/a.yaml --\n{{ toYaml .Values }}",
		"none": "-- templates/a.yaml --\nnothing",
	}
	set := valuesOf(t, "image: {tag: a, tga: b}\nzone: c\ndeep: d\ndefault: e\nwrong: f\n")
	for names, want := range map[string]string{
		"web own sub":     "global.image.tga global.wrong",
		"web":             "global.deep global.default global.image.tga global.wrong global.zone",
		"none":            "global.deep global.default global.image global.wrong global.zone",
		"web own sub all": "",
	} {
		var loaded []*Chart
		for name := range strings.FieldsSeq(names) {
			c, err := new(Cache).Load(moduleOf(t, name, charts[name]))
			if err != nil {
				t.Fatal(err)
			}
			loaded = append(loaded, c)
		}
		var got []string
		for _, u := range UnreadGlobal(loaded, set, nil) {
			got = append(got, u.Path)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}
