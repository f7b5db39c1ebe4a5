package templates

import (
	"maps"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/client-go/dynamic"
)

// chartOf is a chart m with such templates, and a subchart with one of its own.
func chartOf(templates map[string]string) *chart.Chart {
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "m", Version: "1.0.0", APIVersion: "v2"}, Files: []*chart.File{{Name: "files/a.txt", Data: []byte("a\nb\n")}}}
	for name, text := range templates {
		c.Templates = append(c.Templates, &chart.File{Name: "templates/" + name, Data: []byte(text)})
	}
	sub := &chart.Chart{Metadata: &chart.Metadata{Name: "sub", Version: "2.0.0", APIVersion: "v2"}, Values: map[string]any{"word": "sub"}}
	sub.Templates = []*chart.File{{Name: "templates/s.yaml", Data: []byte(`{{ define "who" }}sub{{ end }}{{ .Values.word }} {{ .Chart.Name }} {{ .Template.Name }} {{ .Template.BasePath }} {{ .Values.global.zone }}`)}}
	library := &chart.Chart{Metadata: &chart.Metadata{Name: "lib", Version: "2.0.0", APIVersion: "v2", Type: "library"}}
	library.Templates = []*chart.File{{Name: "templates/_l.tpl", Data: []byte(`{{ define "lib" }}{{ .Chart.Name }}{{ end }}`)}, {Name: "templates/no.yaml", Data: []byte("{{ never }}")}}
	c.SetDependencies(sub, library)
	return c
}

func valuesOf(t testing.TB, c *chart.Chart) chartutil.Values {
	t.Helper()
	given := map[string]any{
		"list": []any{"a", 1.5, nil, true}, "map": map[string]any{"k": "v", "n": map[string]any{"m": 2.0}}, "empty": nil, "text": "x: {{ .Release.Name }}",
		"global": map[string]any{"zone": "here"}, "sub": map[string]any{"word": "parent"}, "number": 3.0,
	}
	values, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "r", Namespace: "ns", Revision: 1}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// nothing has no objects.
type nothing struct{}

func (nothing) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return nil, false, errNone{}
}

type errNone struct{}

func (errNone) Error() string { return "there is no such kind" }

// What the engine of Helm prints is printed, and what it refuses is refused in its words.
func TestRendersLikeHelm(t *testing.T) {
	for name, text := range map[string]string{
		"text":             "plain",
		"values":           `{{ .Values.list }} {{ .Values.map }} {{ .Values.empty }} {{ .Values.missing }} {{ .Values.map.missing }} {{ .Values.number }}`,
		"objects":          `{{ .Release }} {{ .Chart.Name }} {{ .Chart.IsRoot }} {{ .Template }} {{ .Capabilities.KubeVersion }} {{ .Capabilities.APIVersions.Has "v1" }}`,
		"subcharts":        `{{ .Subcharts.sub.Values.word }} {{ include "who" . }} {{ include "lib" . }}`,
		"files":            `{{ .Files.Get "files/a.txt" }}{{ range .Files.Lines "files/a.txt" }}-{{ . }}{{ end }}{{ (.Files.Glob "files/*").AsConfig }}{{ (.Files.Glob "files/*").AsSecrets }}`,
		"include":          `{{ define "a" }}{{ .x }}{{ end }}{{ include "a" (dict "x" 1) | indent 4 }}{{ template "a" (dict "x" "y") }}`,
		"recursion":        `{{ define "a" }}{{ if gt . 0 }}{{ . }}{{ include "a" (sub . 1) }}{{ end }}{{ end }}{{ include "a" 50 }}`,
		"tpl":              `{{ tpl .Values.text . }}{{ tpl "{{ define \"z\" }}in{{ .Values.missing }}{{ end }}{{ include \"z\" . }}{{ tpl \"{{ 1 }}\" . }}" . }}{{ tpl "{{ define \"q\" }}q{{ end }}" . }}{{ tpl "" . }}`,
		"loops":            `{{ range $i, $v := .Values.list }}{{ if eq $i 2 }}{{ continue }}{{ end }}{{ $i }}{{ $v }}{{ else }}none{{ end }}{{ range .Values.missing }}x{{ else }}none{{ end }}{{ range until 5 }}{{ . }}{{ end }}{{ range 3 }}{{ . }}{{ end }}`,
		"with":             `{{ with .Values.map }}{{ .k }}{{ else with .Values.list }}no{{ end }}{{ with .Values.empty }}{{ else }}else{{ end }}`,
		"variables":        `{{ $x := 1 }}{{ $x = add $x 2 }}{{ $x }}{{ $d := dict }}{{ $_ := set $d "a" .Values.map }}{{ $d }}{{ get $d "a" }}{{ $n := nil }}`,
		"yaml":             `{{ toYaml .Values | nindent 2 }}{{ toYamlPretty .Values.map }}{{ fromYaml "a: 1" }}{{ fromYaml "a: [" }}{{ fromYamlArray "[1, a]" }}{{ fromYamlArray "a: 1" }}`,
		"json":             `{{ toJson .Values }}{{ toPrettyJson .Values.list }}{{ toRawJson "<" }}{{ fromJson "{\"a\":1}" }}{{ fromJson "[" }}{{ fromJsonArray "[1]" }}{{ mustToJson 1 }}{{ fromJsonArray "{}" }}`,
		"toml":             `{{ toToml .Values.map }}{{ fromToml "a = 1" }}{{ fromToml "a" }}`,
		"texts":            `{{ "a" | repeat 3 }}{{ cat 1 "b" nil }}{{ quote "a" nil 1 }}{{ squote "b" }}{{ replace "a" "bb" "aca" }}{{ join "," .Values.list }}{{ wrapWith 2 "--" "abcdef" }}{{ indent 2 "a\nb" }}{{ upper "a" }}{{ trunc 2 "abc" }}{{ splitList "," "a,b" }}{{ (split "," "a,b")._1 }}{{ b64enc "a" }}{{ sha256sum "a" }}{{ printf "%05d %s %v" 3 "x" .Values.list }}{{ print 1 "a" 2 3 }}{{ println "a" }}{{ html "<" }}{{ js "'" }}{{ urlquery "a b" }}{{ "a" | title | quote }}`,
		"lists":            `{{ list 1 2 | first }}{{ append (list 1) 2 }}{{ concat (list 1) (list 2) }}{{ without (list 1 2) 1 }}{{ uniq (list 1 1) }}{{ has 1 (list 1) }}{{ seq 3 }}{{ seq 1 2 5 }}{{ untilStep 1 9 3 }}{{ untilStep 9 1 -3 }}{{ chunk 2 (list 1 2 3) }}{{ reverse (list 1 2) }}{{ keys (dict "a" 1) }}{{ index .Values.list 0 }}{{ slice .Values.list 1 2 }}{{ until -2 }}`,
		"maps":             `{{ merge (dict "a" 1) (dict "b" 2) }}{{ deepCopy .Values.map }}{{ dig "n" "m" 0 .Values.map }}{{ pick .Values.map "k" }}{{ omit .Values.map "k" }}{{ hasKey .Values.map "k" }}{{ .Values.map | values | len }}`,
		"defaults":         `{{ default 1 .Values.missing }}{{ .Values.empty | default "e" }}{{ coalesce nil 0 "c" }}{{ ternary "a" "b" true }}{{ empty .Values.list }}{{ .Values.number | int }}{{ kindOf .Values.number }}{{ typeOf .Values.map }}`,
		"no environment":   `{{ getHostByName "localhost" }}.`,
		"parse error":      "a\n{{ if }}",
		"unknown function": `{{ env "HOME" }}`,
		"fail":             "\n{{ fail \"not here\" }}",
		"required":         `{{ required "set it" .Values.missing }}`,
		"required text":    `{{ required "set it" .Values.text }}{{ required "set that" "" }}`,
		"nil":              `{{ .Values.no.such.key }}`,
		"no template":      `{{ include "no.such" . }}`,
		"a bad call":       `{{ repeat "a" 1 }}`,
		"lookup":           `{{ lookup "v1" "Pod" "" "" }}`,
		"a bad tpl":        `{{ tpl "{{ if }}" . }}`,
		"atoi":             `{{ atoi "12" }}{{ int64 "3" }}{{ add 1 2 }}{{ mul 2 3 }}{{ semverCompare ">1" "2.0.0" }}{{ "2020-01-01" | toDate "2006-01-02" | date "2006" }}{{ regexReplaceAll "a(.)" "ab" "${1}" }}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := chartOf(map[string]string{"a.yaml": text, "_h.tpl": `{{ define "who" }}root{{ end }}`, "templates/deep.yaml": "{{ .Template.Name }} {{ .Template.BasePath }}"})
			want, wantErr := engine.RenderWithClientProvider(c, valuesOf(t, c), nothing{})
			got, err := new(Renderer).Render(t.Context(), c, valuesOf(t, c), nothing{})
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("the error is %v, Helm's is %v", err, wantErr)
			}
			if err == nil && !maps.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			// Not because Helm did it in the end.
			if _, ours := newRendering().render(&budget{ctx: t.Context(), most: usual()}, sources(c, valuesOf(t, c)), nothing{}); (ours == nil) != (wantErr == nil) {
				t.Errorf("our own error is %v, Helm's %v", ours, wantErr)
			}
		})
	}
}

// A chart that would take the process along is refused, with its template. D39.
func TestLimits(t *testing.T) {
	const made, prints, steps = "m/templates/a.yaml:1:", "the chart prints more than 1 MiB", "it takes more than 50000 steps"
	for name, tt := range map[string]struct{ text, want string }{
		"repeat":                 {`{{ repeat 2000000000 "x" }}`, made},
		"repeat by a number":     {`{{ repeat (int64 9000000000 | int) "x" }}`, made},
		"repeat in steps":        {`{{ range until 100 }}{{ repeat 1000000 "x" | len }}{{ end }}`, made},
		"until":                  {`{{ range until 100000000 }}{{ end }}`, made},
		"untilStep":              {`{{ untilStep -900000000 900000000 1 | len }}`, made},
		"seq":                    {`{{ seq 0 1 100000000 | len }}`, made},
		"a number":               {`{{ range 1000000000 }}{{ end }}`, steps},
		"loops":                  {`{{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}{{ end }}`, steps},
		"loops that print":       {`{{ range until 10000 }}{{ range until 10000 }}0123456789012345678901234567890123456789012345678901234567890123456789{{ end }}{{ end }}`, prints},
		"random text":            {`{{ randAlphaNum 900000000 | len }}`, made},
		"random text, in steps":  {`{{ range 1000 }}{{ randAlphaNum 10000 | len }}{{ end }}`, made},
		"indent":                 {`{{ indent 900000000 "a" | len }}`, made},
		"nindent of many lines":  {`{{ nindent 5000 (repeat 1000000 "\n") | len }}`, made},
		"wrapWith":               {`{{ wrapWith 1 (repeat 100000 "x") (repeat 100000 "y z ") | len }}`, made},
		"replace":                {`{{ replace "x" (repeat 100000 "y") (repeat 100000 "x") | len }}`, made},
		"join":                   {`{{ join (repeat 100000 "y") (until 100000) | len }}`, made},
		"printf":                 {`{{ printf (repeat 10000 "%900000d") 1 | len }}`, made},
		"printf by a star":       {`{{ printf (repeat 10000 "%*d") 900000 1 | len }}`, made},
		"a text that doubles":    {`{{ $x := "0123456789" }}{{ range until 60 }}{{ $x = printf "%s%s" $x $x }}{{ end }}`, made},
		"a text that grows":      {`{{ $x := "0123456789" }}{{ range until 60 }}{{ $x = cat $x $x }}{{ end }}`, made},
		"a list that doubles":    {`{{ $x := list 1 }}{{ range until 60 }}{{ $x = concat $x $x }}{{ end }}`, made},
		"lists of lists":         {`{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ toYaml $x | len }}`, made},
		"lists of lists, shown":  {`{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}`, made},
		"lists of lists, copied": {`{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ $y := deepCopy $x }}`, made},
		"a map in itself":        {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ $x }}`, "nested more than 500 deep"},
		"a map that is set":      {`{{ $x := dict }}{{ set $x "x" $x }}`, "nested more than 500 deep"},
		"a map in itself, YAML":  {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ toYaml $x }}`, "nested more than 500 deep"},
		"templates that double":  {`{{ define "a" }}{{ if lt . 60 }}{{ include "a" (add . 1) }}{{ include "a" (add . 1) }}{{ end }}{{ end }}{{ include "a" 0 }}`, steps},
		"double and print":       {`{{ define "a" }}{{ if lt . 60 }}x{{ template "a" (add . 1) }}{{ template "a" (add . 1) }}{{ end }}{{ end }}{{ template "a" 0 }}`, steps},
		"recursion":              {`{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`, "more than 500 deep"},
		"recursion by template":  {`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`, "more than 500 deep"},
		"in tpl":                 {`{{ tpl "{{ range until 10000 }}{{ range until 10000 }}{{ end }}{{ end }}" . }}`, steps},
		"tpl of tpl":             {`{{ define "a" }}{{ tpl "{{ include \"a\" . }}" . }}{{ end }}{{ include "a" . }}`, "more than 500 deep"},
		"YAML aliases":           {`{{ $a := printf "a: &a %s\nl: [%s]" (repeat 1000000 "x") (repeat 1000 "*a,") }}{{ fromYaml $a | len }}`, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := chartOf(map[string]string{"a.yaml": tt.text})
			_, err := newRendering().render(&budget{ctx: t.Context(), most: limits{printed: 1 << 20, made: 16 << 20, steps: 50_000}}, sources(c, valuesOf(t, c)), nothing{})
			if err == nil || !strings.HasPrefix(err.Error(), "m/templates/a.yaml") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// BenchmarkRender is beside Helm's own.
func BenchmarkRender(b *testing.B) {
	text := `{{- define "labels" }}app: {{ .Release.Name | quote }}{{ end -}}
{{ range $i := until 30 }}---
kind: ConfigMap
metadata: {name: {{ $.Release.Name }}-{{ $i }}, labels: { {{- include "labels" $ }}}}
data:
  a: {{ default "x" $.Values.missing | quote }}
{{- with $.Values.map }}
{{ toYaml . | indent 2 }}
{{- end }}
{{ end }}`
	for _, c := range []struct{ name, text string }{{"small", configMap}, {"large", text}} {
		ch := chartOf(map[string]string{"a.yaml": c.text})
		values := valuesOf(b, ch)
		b.Run(c.name+"/ours", func(b *testing.B) {
			var renderer Renderer
			b.ReportAllocs()
			for b.Loop() {
				if _, err := renderer.Render(b.Context(), ch, values, nothing{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/Helm", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := engine.RenderWithClientProvider(ch, values, nothing{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const configMap = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: {{ .Release.Name }}}\ndata: {text: {{ .Values.text | quote }}}\n"
