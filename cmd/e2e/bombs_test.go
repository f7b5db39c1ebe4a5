package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// part is a text that is repeated some times.
type part struct {
	text  string
	times int
}

// packed is the part in the format of gzip, which may be several archives one after the other: a part that is larger
// than there is memory is packed in pieces, and each piece only once.
func (p part) packed(t testing.TB) []byte {
	t.Helper()
	archive := func(times int) []byte {
		var out bytes.Buffer
		packer := gzip.NewWriter(&out)
		must(t, second(io.WriteString(packer, strings.Repeat(p.text, times))))
		must(t, packer.Close())
		return out.Bytes()
	}
	piece := max(1, 1<<20/len(p.text))
	return append(bytes.Repeat(archive(min(piece, p.times)), p.times/min(piece, p.times)), archive(p.times%min(piece, p.times))...)
}

// craftRecord writes a release record of revision 1 whose JSON is what these parts give together.
func (h *fixture) craftRecord(name string, parts ...part) {
	h.t.Helper()
	var packed []byte
	for _, p := range parts {
		packed = append(packed, p.packed(h.t)...)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "sh.helm.release.v1." + name + ".v1",
			Labels: map[string]string{"name": name, "owner": "helm", "status": "deployed", "version": "1", "moduleChecksum": "0123456789abcdef"},
		},
		Type: "helm.sh/release.v1",
		Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(packed))},
	}
	must(h.t, second(h.client.CoreV1().Secrets(h.namespace).Create(h.ctx, secret, metav1.CreateOptions{})))
}

// Who may write Secrets in the operator's namespace can make a release record that stands for more than there is
// memory. It is a corrupted one. H5, D39.
func TestBombInAReleaseRecord(t *testing.T) {
	devclustertest.OnlyInFull(t)
	t.Parallel()
	const head = `{"name":"one","namespace":"n","version":1,"info":{"status":"deployed"},"chart":{"metadata":{"name":"one","version":"1","apiVersion":"v2"}},`
	text := func(s string) part { return part{s, 1} }
	for what, record := range map[string][]part{
		"a long text":                      {text(head + `"manifest":"`), part{" ", 200_000_000}, text(`"}`)},
		"many short values":                {text(head + `"config":{"l":[0`), part{",0", 100_000_000}, text(`]}}`)},
		"short values in 30 MB":            {text(head + `"config":{"l":[0`), part{",[]", 10_000_000}, text(`]}}`)},
		"aliases":                          {text(head + `"manifest":"kind: A\nmetadata: {name: a}\nbig: &a `), part{"x", 600_000}, text(`\nl: [`), part{"*a,", 99_000}, text(`]\n"}`)},
		"lists of aliases":                 {text(head + `"manifest":"kind: A\nmetadata: {name: a}\na: &a [`), part{"x,", 1_000}, text(`]\nb: &b [`), part{"*a,", 1000}, text(`]\nl: [`), part{"*b,", 3_000}, text(`]\n"}`)},
		"many documents":                   {text(head + `"manifest":"`), part{`kind: A\nmetadata: {name: a}\n---\n`, 400_000}, text(`"}`)},
		"hooks":                            {text(head + `"hooks":[{}`), part{`,{}`, 9_000_000}, text(`]}`)},
		"values in a list of the manifest": {text(head + `"manifest":"kind: A\nmetadata: {name: a}\nl: [`), part{`0,`, 10_000_000}, text(`]\n"}`)},
	} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t, "configmap")
			h.craftRecord("one", record...)
			o := h.start()
			peak := bounded(o)
			o.ready()
			h.awaitConfigMap("one", "size", "1")
			expectPeak(t, what, peak)
		})
	}
}

// A chart that prints a text of the ConfigMap as it is lets its writers add YAML. The module fails. H3, D39.
func TestBombInARenderedManifest(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h := newFixture(t, "configmap")
	h.write("modules/020-two/templates/extra.yaml", "{{ .Values.two.extra }}\n")
	o := h.start()
	peak := bounded(o)
	o.ready()
	h.setConfig(map[string]string{"two": "extra: |\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: extra}\n  " + strings.ReplaceAll(aliasBomb(99_000), "\n", "\n  ") + "\n"})
	o.expect("ERROR", "will retry", "module=two", "two/templates/extra.yaml: the manifest is larger than 16 MiB, with all aliases written out")
	expectAll(t, o.command("module", "render", "two"), "larger than 16 MiB")
	expectPeak(t, "aliases in a rendered manifest", peak)
	h.setConfig(map[string]string{"two": "extra: '{kind: ConfigMap, apiVersion: v1, metadata: {name: extra}, data: {a: b}}'"})
	h.until("the object of the fixed chart", func() bool { return h.configMap("extra") != nil })
}

// A long list that fits none of the alternatives of its schema is refused without an explanation of each element.
// D38, D39.
func TestFloodOfViolations(t *testing.T) {
	devclustertest.OnlyInFull(t)
	t.Parallel()
	for what, c := range map[string]struct{ schema, values string }{
		"nested anyOf and oneOf": {"anyOf: [" + strings.Repeat("{oneOf: [{type: string}, {type: object, required: [a]}, {enum: [a, b]}, {anyOf: [{type: boolean}, {type: array}]}]},", 8) + "]",
			"l: [" + strings.Repeat("1,", 120_000) + "]\n"},
		"anyOf": {"anyOf: [{type: string}, {type: object}]", "l: [" + strings.Repeat("1,", 120_000) + "]\n"},
		"objects": {"type: object, additionalProperties: false, required: [a, b, c, d, e, f, g], properties: {a: {type: string}, b: {anyOf: [{type: string}, {type: boolean}]}}",
			"l: [" + strings.Repeat("{b: 1, x: 1},", 25_000) + "]\n"},
		"patterns": {`type: object, patternProperties: {"^(a|aa)+$": {type: string}, "^(([a-z])+.)+[A-Z]([a-z])+$": {type: string}}, additionalProperties: false`,
			"l: [" + strings.Repeat("{"+strings.Repeat("a", 1000)+"!: 1},", 800) + "]\n"},
	} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t, "configmap")
			h.write("modules/010-one/openapi/config-values.yaml", "type: object\nproperties: {l: {type: array, items: {"+c.schema+"}}}\n")
			o := h.start()
			peak := bounded(o)
			o.ready()
			h.setConfig(map[string]string{"one": c.values})
			o.expect("ERROR", "ConfigMap and Secret are refused")
			expectPeak(t, what, peak)
		})
	}
}

// pipe makes a named pipe; a reader waits for somebody who writes.
func (h *fixture) pipe(name string) {
	h.t.Helper()
	h.mkdir(filepath.ToSlash(filepath.Dir(name)))
	must(h.t, syscall.Mkfifo(h.path(name), 0o644))
}

// What a start reads and what is no file, or never ends, ends the start with a word. A19, D39.
func TestStartDoesNotWaitForPipesAndDevices(t *testing.T) {
	h := newFixture(t, "configmap")
	h.remove("modules/values.yaml")
	h.pipe("modules/values.yaml")
	h.pipe("modules/010-one/openapi/values.yaml")
	h.mkdir("modules/030-zero")
	must(t, os.Symlink("/dev/zero", h.path("modules/030-zero/values.yaml")))
	o := h.start()
	peak := bounded(o)
	if code := o.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	const says = ": it is neither a regular file nor a link to one"
	expectAll(t, strings.Join(o.output.lines(), "\n"), "values file values.yaml"+says,
		"schema 010-one/openapi/values.yaml"+says, "values file 030-zero/values.yaml"+says)
	expectPeak(t, "a start", peak)
}

// A module whose chart or whose definitions stand for more than there is memory fails with a word, as does one with a
// pipe in the place of a file; the operator goes on. A17, M1, D39.
func TestBombInTheFilesOfAModule(t *testing.T) {
	devclustertest.OnlyInFull(t)
	t.Parallel()
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: bombs.example.com}\nspec:\n"
	for what, c := range map[string]struct {
		prepare func(h *fixture)
		says    string
	}{
		"aliases in Chart.yaml": {func(h *fixture) {
			h.write("modules/010-one/Chart.yaml", "name: one\nversion: 0.1.0\napiVersion: v2\n"+aliasBomb(99_000))
		}, "Chart.yaml: the manifest is larger than 16 MiB"},
		"aliases in the values of a subchart": {func(h *fixture) {
			h.write("modules/010-one/charts/sub/Chart.yaml", "name: sub\nversion: 0.1.0\napiVersion: v2\n")
			h.write("modules/010-one/charts/sub/values.yaml", aliasBomb(99_000))
		}, "charts/sub/values.yaml: the manifest is larger than 16 MiB"},
		"many files": {func(h *fixture) {
			large := strings.Repeat("x", 4<<20)
			for i := range 17 {
				h.write(fmt.Sprint("modules/010-one/files/", i), large)
			}
		}, "its files have more than 64 MiB; list in .helmignore what no template reads"},
		"a pipe as .helmignore":  {func(h *fixture) { h.pipe("modules/010-one/.helmignore") }, ".helmignore is neither a regular file"},
		"a pipe as a definition": {func(h *fixture) { h.pipe("modules/020-two/crds/a.yaml") }, "read CRDs of 020-two: crds/a.yaml is neither a regular file"},
		"aliases in a definition": {func(h *fixture) {
			h.write("modules/020-two/crds/a.yaml", crd+"  "+strings.ReplaceAll(aliasBomb(99_000), "\n", "\n  "))
		}, "crds/a.yaml: the manifest is larger than 16 MiB"},
		"a long definition": {func(h *fixture) {
			h.write("modules/020-two/crds/a.yaml", crd+"  l:\n"+strings.Repeat("  - {description: something}\n", 400_000))
		}, "crds/a.yaml: the manifest has more than 500000 lines"},
		"a long file of definitions": {func(h *fixture) {
			h.write("modules/020-two/crds/a.yaml", strings.Repeat(crd+"---\n", 200_000))
		}, "more than 16 MiB; split it into several files"},
	} {
		t.Run(what, func(t *testing.T) {
			h := newFixture(t, "configmap")
			c.prepare(h)
			o := h.start()
			peak := bounded(o)
			expectAll(t, o.expect("ERROR", "will retry"), c.says)
			expectPeak(t, what, peak)
			if code := o.terminate(); code != 0 {
				t.Errorf("exit code %d after SIGTERM, want 0", code)
			}
		})
	}
}
