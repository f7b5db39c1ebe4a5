package e2e

import (
	"bufio"
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

	"k8s.io/client-go/kubernetes"

	"addon-operator/testkit/devclustertest"
)

const (
	compatibilityPage  = "../../docs/compatibility.md"
	compatibilityBegin = "<!-- made by make matrix: begin -->"
	compatibilityEnd   = "<!-- made by make matrix: end -->"
	compatibilityHead  = "| Kubernetes | built from | tests |\n|---|---|---|\n"
	// resultsEnv names the output of go test -json on the Kubernetes of the cluster; with it the test writes its row.
	resultsEnv = "MATRIX_RESULTS"
)

// The page has a row for each Kubernetes that a control plane can be made of, and on each all tests passed. With
// $MATRIX_RESULTS, as in make matrix, the row of the running one is written.
func TestCompatibilityPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(compatibilityPage)
	must(t, err)
	before, rest, ok1 := strings.Cut(string(page), compatibilityBegin)
	table, after, ok2 := strings.Cut(rest, compatibilityEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", compatibilityPage, compatibilityBegin, compatibilityEnd)
	}
	rows, built := map[string]string{}, builtVersions(t)
	for _, m := range regexp.MustCompile(`(?m)^\| (1\.\d+) \| v1\S+ \| .* \|$`).FindAllStringSubmatch(table, -1) {
		rows[m[1]] = m[0]
	}
	if results := os.Getenv(resultsEnv); results != "" {
		minor, row := rowOfRunning(t, results)
		rows[minor] = row
		table = "\n\n" + compatibilityHead
		for _, name := range built {
			if rows[name] != "" {
				table += rows[name] + "\n"
			}
		}
		text := before + compatibilityBegin + table + "\n" + compatibilityEnd + after
		must(t, os.WriteFile(compatibilityPage, []byte(text), 0o644))
		t.Log(row)
		return
	}
	for _, name := range built {
		if !regexp.MustCompile(`\| \d+ passed \|$`).MatchString(rows[name]) {
			t.Errorf("%s: Kubernetes %s has the row %q: make matrix KUBERNETES=%[2]s writes it", compatibilityPage, name, rows[name])
		}
	}
	if len(rows) != len(built) {
		t.Errorf("%s has %d rows, and control planes can be made of %v", compatibilityPage, len(rows), built)
	}
}

// rowOfRunning is the row of the Kubernetes of the cluster, with the results of its tests.
func rowOfRunning(t *testing.T, results string) (minor, row string) {
	t.Helper()
	version, err := kubernetes.NewForConfigOrDie(devclustertest.Start(t).RESTConfig()).Discovery().ServerVersion()
	must(t, err)
	file, err := os.Open(results)
	must(t, err)
	defer file.Close()
	tests, err := summary(file)
	if err != nil {
		t.Fatalf("%s: %v", results, err)
	}
	minor = version.Major + "." + strings.TrimRight(version.Minor, "+")
	return minor, fmt.Sprintf("| %s | %s | %s |", minor, version.GitVersion, tests)
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
		must(t, err)
		found := regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes v(1\.\d+)\.`).FindSubmatch(data)
		if found == nil {
			t.Fatalf("%s requires no k8s.io/kubernetes", file)
		}
		all = append(all, string(found[1]))
	}
	return all
}

// summary says how many tests of the output of go test -json passed, and which failed. The last result of a test
// counts, which may be that of a second run. A test or a package that ends without a result counts as failed.
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
