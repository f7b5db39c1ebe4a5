package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// This file proves docs/upgrading.md: what an older version has left in a cluster, the next one takes over as it is.

// state is what an operator leaves in its namespace, as testdata/state has it: NAMESPACE stands for the namespace,
// and records of releases are JSON that a person can read.
type state struct {
	ConfigMaps []corev1.ConfigMap `json:"configMaps"`
	Secrets    []corev1.Secret    `json:"secrets"`
}

const placeOfNamespace = "NAMESPACE"

// readState reads what is in the namespace, without what the API server has added.
func (h *fixture) readState() (s state) {
	h.t.Helper()
	maps, err := h.client.CoreV1().ConfigMaps(h.namespace).List(h.ctx, metav1.ListOptions{})
	must(h.t, err)
	secrets, err := h.client.CoreV1().Secrets(h.namespace).List(h.ctx, metav1.ListOptions{})
	must(h.t, err)
	plain := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
	}
	for _, cm := range maps.Items {
		if cm.Name != "kube-root-ca.crt" {
			s.ConfigMaps = append(s.ConfigMaps, corev1.ConfigMap{ObjectMeta: plain(cm.ObjectMeta), Data: cm.Data})
		}
	}
	for _, secret := range secrets.Items {
		texts := map[string]string{}
		for key, data := range secret.Data {
			if texts[key] = string(data); isRelease(secret) {
				texts[key] = h.unpackRecord(data)
			}
		}
		s.Secrets = append(s.Secrets, corev1.Secret{ObjectMeta: plain(secret.ObjectMeta), Type: secret.Type, StringData: texts})
	}
	return s
}

func isRelease(s corev1.Secret) bool { return s.Type == "helm.sh/release.v1" }

// unpackRecord and packRecord know Helm's form of a record: JSON, zipped, in base64.
func (h *fixture) unpackRecord(data []byte) string {
	h.t.Helper()
	zipped, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	must(h.t, err)
	text, err := io.ReadAll(zipped)
	must(h.t, err)
	return string(text)
}

func (h *fixture) packRecord(text string) string {
	h.t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	must(h.t, second(io.WriteString(zipped, text)))
	must(h.t, zipped.Close())
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// writeState creates what a version has left.
func (h *fixture) writeState(file string) {
	h.t.Helper()
	text, err := os.ReadFile(file)
	must(h.t, err)
	var s state
	must(h.t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(text), placeOfNamespace, h.namespace)), &s))
	for _, cm := range s.ConfigMaps {
		must(h.t, second(h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, &cm, metav1.CreateOptions{})))
	}
	for _, secret := range s.Secrets {
		if isRelease(secret) {
			secret.StringData["release"] = h.packRecord(secret.StringData["release"])
		}
		must(h.t, second(h.client.CoreV1().Secrets(h.namespace).Create(h.ctx, &secret, metav1.CreateOptions{})))
	}
}

// standing is what a take-over must leave as it is: revisions of releases, the objects of modules, down to their
// resourceVersion, and what the ConfigMap says.
func (h *fixture) standing() string {
	h.t.Helper()
	var text strings.Builder
	for _, name := range []string{"site", "plain", "asked"} {
		cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Get(h.ctx, name, metav1.GetOptions{})
		must(h.t, err)
		fmt.Fprintf(&text, "%s: revisions %s, object %s version %s %v\n", name, h.revisions(name), cm.UID, cm.ResourceVersion, cm.Data)
	}
	config := h.config()
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&text, "ConfigMap %s: %s\n", key, config[key])
	}
	return text.String()
}

// What older versions have left, one file for each in testdata/state, is taken over by this one: no release gets a
// revision, no object is written, no values change. Hooks run as at each start. The releases belong to this
// version: when a module goes, its release is purged. P2, H1.
func TestStateOfOlderVersionsIsTakenOver(t *testing.T) {
	files, err := filepath.Glob("testdata/state/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no state: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			h := newFixture(t, "taken_over")
			h.writeState(file)
			before := h.standing()
			o := h.start().ready()
			if after := h.standing(); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			h.awaitJournal("before")
			expectAll(t, o.command("values", "explain", "site"), `site.size`, `3`, "ConfigMap", "blue")
			o.terminate()

			h.remove("modules/020-plain")
			h.start().ready()
			h.awaitRevisions("plain", "")
			if data := h.configMap("plain"); data != nil {
				t.Errorf("the object of the purged release is still there: %v", data)
			}
			if site, asked := h.revisions("site"), h.revisions("asked"); site == "" || asked == "" {
				t.Errorf("the other releases are %q and %q", site, asked)
			}
		})
	}
}

// An older program, this one and the older one again work on one namespace: the way forth and the way back. It needs
// an older program, as OLDER_PROGRAM=/path OLDER_VERSION=v0.1.0; what it leaves becomes the state in testdata/state of
// that version.
func TestForthAndBack(t *testing.T) {
	older, version := os.Getenv("OLDER_PROGRAM"), os.Getenv("OLDER_VERSION")
	if older == "" || version == "" {
		t.Skip("needs OLDER_PROGRAM, the path of an older addon-operator, and OLDER_VERSION, its name")
	}
	h := newFixture(t, "taken_over")
	h.setConfig(map[string]string{"site": "size: 3\n"})
	startOlder := func() *operator {
		h.within = []string{"sh", "-c", `exec "` + older + `"`}
		defer func() { h.within = nil }()
		return h.start()
	}
	startOlder().ready().terminate()
	text, err := yaml.Marshal(h.readState())
	must(t, err)
	text = bytes.ReplaceAll(text, []byte(h.namespace), []byte(placeOfNamespace))
	must(t, os.WriteFile("testdata/state/"+version+".yaml", text, 0o644))
	before := h.standing()
	h.start().ready().terminate()
	if forth := h.standing(); forth != before {
		t.Errorf("before:\n%s\nforth:\n%s", before, forth)
	}
	startOlder().ready().terminate()
	if back := h.standing(); back != before {
		t.Errorf("before:\n%s\nback:\n%s", before, back)
	}
}
