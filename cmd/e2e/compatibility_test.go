package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"addon-operator/testkit/devclustertest"
)

const (
	compatibilityPage  = "../../docs/compatibility.md"
	compatibilityBegin = "<!-- made by make matrix: begin -->"
	compatibilityEnd   = "<!-- made by make matrix: end -->"
	compatibilityHead  = "| Kubernetes | built from | tests | lists as streams | image volumes | selectable fields of CRDs |\n|---|---|---|---|---|---|\n"
	// resultsEnv names the output of go test -json on the Kubernetes of the cluster; with it the test writes its row.
	resultsEnv = "MATRIX_RESULTS"
)

// The page has a row for each Kubernetes that a control plane can be made of, and what the row of the running one says
// of its API server is so. With $MATRIX_RESULTS, as in make matrix, the row is written.
func TestCompatibilityPage(t *testing.T) {
	t.Parallel()
	cluster := devclustertest.Start(t)
	client := kubernetes.NewForConfigOrDie(cluster.RESTConfig())
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	before, rows, after := compatibilityRows(t)
	minor := version.Major + "." + strings.TrimRight(version.Minor, "+")
	cells := []string{minor, version.GitVersion, "", listStreams(t, client), imageVolumes(t, client, cluster.Namespace(t)), selectableFields(t, client)}

	if results := os.Getenv(resultsEnv); results != "" {
		file, err := os.Open(results)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if cells[2], err = summary(file); err != nil {
			t.Fatalf("%s: %v", results, err)
		}
		rows[minor] = cells
		var table strings.Builder
		table.WriteString(compatibilityHead)
		for _, name := range builtVersions(t) {
			if row, ok := rows[name]; ok {
				table.WriteString("| " + strings.Join(row, " | ") + " |\n")
			}
		}
		text := before + compatibilityBegin + "\n\n" + table.String() + "\n" + compatibilityEnd + after
		if err := os.WriteFile(compatibilityPage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("Kubernetes %s: %s", minor, cells[2])
		return
	}
	row := rows[minor]
	if len(row) != len(cells) {
		t.Fatalf("%s has no row for Kubernetes %s: make matrix KUBERNETES=%[2]s writes it", compatibilityPage, minor)
	}
	cells[2] = row[2] // only make matrix knows
	if !slices.Equal(row, cells) {
		t.Errorf("the row is\n%q, want\n%q: make matrix KUBERNETES=%s writes it", row, cells, minor)
	}
	if !regexp.MustCompile(`^\d+ passed$`).MatchString(row[2]) {
		t.Errorf("tests of Kubernetes %s: %s; a row with failures is no support", minor, row[2])
	}
	for _, name := range builtVersions(t) {
		if rows[name] == nil {
			t.Errorf("%s has no row for Kubernetes %s: make matrix KUBERNETES=%[2]s writes it", compatibilityPage, name)
		}
	}
	if len(rows) != len(builtVersions(t)) {
		t.Errorf("%s has %d rows, and control planes can be made of %v", compatibilityPage, len(rows), builtVersions(t))
	}
}

// compatibilityRows are the cells of the page's table by minor version, and the text around it.
func compatibilityRows(t *testing.T) (before string, rows map[string][]string, after string) {
	t.Helper()
	page, err := os.ReadFile(compatibilityPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(page), compatibilityBegin)
	table, after, ok2 := strings.Cut(rest, compatibilityEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", compatibilityPage, compatibilityBegin, compatibilityEnd)
	}
	rows = map[string][]string{}
	for line := range strings.Lines(strings.TrimPrefix(strings.TrimSpace(table), strings.TrimSpace(compatibilityHead))) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(cell)
		}
		if cells[0] != "" {
			rows[cells[0]] = cells
		}
	}
	return before, rows, after
}

// builtVersions are the minor versions that control planes can be made of, in order: those of
// testkit/devcluster/kube-*.mod, and of go.mod there.
func builtVersions(t *testing.T) []string {
	t.Helper()
	const dir = "../../testkit/devcluster"
	files, err := filepath.Glob(dir + "/kube-*.mod")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var all []string
	for _, file := range append(files, dir+"/go.mod") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes v(1\.\d+)\.`).FindSubmatch(data)
		if found == nil {
			t.Fatalf("%s requires no k8s.io/kubernetes", file)
		}
		all = append(all, string(found[1]))
	}
	return all
}

// summary says how many tests of the output of go test -json passed, and which failed. The last result of a test counts,
// which may be that of a second run. A test or a package that ends without a result counts as failed.
func summary(output io.Reader) (string, error) {
	results, passed, failed := map[string]string{}, 0, []string{}
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct{ Action, Package, Test string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			return "", fmt.Errorf("no line of go test -json: %q", lines.Text())
		}
		if slices.Contains([]string{"start", "run", "pass", "fail", "skip"}, event.Action) {
			results[strings.TrimSpace(strings.TrimPrefix(event.Package, "addon-operator/")+" "+event.Test)] = event.Action
		}
	}
	for name, result := range results {
		switch {
		case result != "pass" && result != "skip":
			failed = append(failed, name)
		case result == "pass" && strings.Contains(name, " "):
			passed++
		}
	}
	slices.Sort(failed)
	switch err := lines.Err(); {
	case err != nil:
		return "", err
	case passed+len(failed) == 0:
		return "", errors.New("no test has run")
	case len(failed) > 0:
		return fmt.Sprintf("%d passed, failed: %s", passed, oneLine(strings.Join(failed, ", "))), nil
	}
	return fmt.Sprintf("%d passed", passed), nil
}

// listStreams says whether the API server sends the objects of a list as the first events of a watch, which is what the
// client library asks for first. Without that it lists, and then watches.
func listStreams(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	initial := true
	events, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{
		SendInitialEvents: &initial, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if apierrors.IsInvalid(err) {
		return "no"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if namespace, ok := event.Object.(*corev1.Namespace); ok && event.Type == watch.Bookmark && namespace.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			return "yes"
		}
	}
	t.Fatal("the watch ended before its bookmark")
	return ""
}

// imageVolumes says what the API server does with a volume of the type image, of which nothing else is set.
func imageVolumes(t *testing.T, client kubernetes.Interface, namespace string) string {
	t.Helper()
	pod, err := client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "image-volume"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "c", VolumeMounts: []corev1.VolumeMount{{Name: "modules", MountPath: "/modules"}}}},
			Volumes:    []corev1.Volume{{Name: "modules", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "modules:v1"}}}},
		},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err != nil:
		t.Log(err)
		return "refused by default"
	case pod.Spec.Volumes[0].Image == nil:
		return "dropped by default"
	}
	return "yes"
}

// selectableFields says whether the API server keeps the fields of a CRD that field selectors may name.
func selectableFields(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	answer, err := client.CoreV1().RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Param("dryRun", "All").
		SetHeader("Content-Type", "application/json").Body([]byte(`{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.compatibility.example.com"},
			"spec": {"group": "compatibility.example.com", "scope": "Namespaced", "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp"},
				"versions": [{"name": "v1", "served": true, "storage": true, "selectableFields": [{"jsonPath": ".color"}],
					"schema": {"openAPIV3Schema": {"type": "object", "properties": {"color": {"type": "string"}}}}}]}}`)).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(answer), `"jsonPath":".color"`) {
		return "no"
	}
	return "yes"
}
