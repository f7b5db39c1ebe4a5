package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// switched is a repository in two versions, below a link as git-sync makes it. The second version renames the value
// that keeps a claim.
const switched = `
-- old/values.yaml --
firstEnabled: true
storeEnabled: true
-- old/010-first/hooks/wait.sh --
FIRST
-- old/020-store/values.yaml --
store: {version: old, app: {persistence: true}}
-- old/020-store/templates/claim.yaml --
{{ if dig "persistence" false .Values.store.app }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: store}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
{{ end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: store}
data: {made: "old {{ .Values.store.version }} {{ .Values.store.hook }}"}
-- old/020-store/hooks/set.sh --
#!/usr/bin/env bash
[[ ${1:-} == --config ]] && { echo '{configVersion: v1, beforeHelm: 1}'; exit; }
SECOND
[[ -z ${NAMES-} ]] || echo '{"op": "add", "path": "/store/app/persistence", "value": true}' > "$VALUES_JSON_PATCH_PATH"
echo '{"op": "add", "path": "/store/hook", "value": "old"}' >> "$VALUES_JSON_PATCH_PATH"
`

// waits is a part of a hook: it waits until the test opens the gate, if there is one.
const waits = `if [[ -p $OUT/gate ]]; then echo waits >> "$OUT/journal"; read -r _ < "$OUT/gate"; fi`

// P8: a root that is a link is switched while a reload runs: nothing is installed of a mixture of two versions,
// whether the values come from files or from a hook, and whether a hook of another module or of this one runs
// meanwhile. The claim that the value keeps stays.
func TestSwitchedRoot(t *testing.T) {
	const first = "#!/usr/bin/env bash\n[[ ${1:-} == --config ]] && { echo '{configVersion: v1, beforeHelm: 1}'; exit; }\n"
	for name, c := range map[string]struct{ first, second, values string }{
		"before the run":       {waits, "", "true"},
		"during its own hooks": {"", waits, "true"},
		"values of a hook":     {"", waits, ""},
	} {
		t.Run(name, func(t *testing.T) {
			archive := strings.NewReplacer("FIRST", first+c.first+"\ntrue", "SECOND", c.second).Replace(switched)
			if c.values == "" { // hooks alone set it
				archive = strings.NewReplacer("app: {persistence: true}", "app: {}", "[[ -z ${NAMES-} ]] || ", "", "version: old", "version: any").Replace(archive)
			}
			h := newFixture(t, archive)
			h.writeVersion("new", strings.NewReplacer("persistence", "storage", "old", "new"))
			h.switchTo("old")
			o := h.start("MODULES_DIR=" + h.path("current")).ready()
			claims := h.client.CoreV1().PersistentVolumeClaims(h.namespace)
			claim, err := claims.Get(h.ctx, "store", metav1.GetOptions{})
			must(t, err)
			must(t, syscall.Mkfifo(h.path("out/gate"), 0o600))
			h.setConfig(map[string]string{"global": "any: text"})
			h.awaitLine("out/journal", "waits")
			h.switchTo("new")
			gate, err := os.OpenFile(h.path("out/gate"), os.O_RDWR, 0)
			must(t, err)
			defer gate.Close()
			h.remove("out/gate") // the next run does not wait
			must(t, second(gate.WriteString("go\n")))
			want := "new new new"
			if c.values == "" {
				want = "new any new"
			}
			h.awaitConfigMap("store", "made", want)
			h.awaitRevisions("store", "1:superseded 2:deployed") // so there was none of a mixture
			o.expect("files have changed during the task", "nothing is installed of a mixture of both")
			if now, err := claims.Get(h.ctx, "store", metav1.GetOptions{}); err != nil || now.UID != claim.UID || now.DeletionTimestamp != nil {
				t.Errorf("the claim was deleted: %v, %v", now, err)
			}
		})
	}
}

// writeVersion writes another version of the files in old.
func (h *fixture) writeVersion(version string, edit *strings.Replacer) {
	h.t.Helper()
	err := filepath.WalkDir(h.path("old"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(h.path("old"), path)
			h.write(filepath.Join(version, name), edit.Replace(h.read(filepath.Join("old", name))))
		}
		return err
	})
	must(h.t, err)
}

// switchTo points the link of the root to a version, as one step.
func (h *fixture) switchTo(version string) {
	h.t.Helper()
	must(h.t, os.Symlink(version, h.path("next")))
	h.rename("next", "current")
}
