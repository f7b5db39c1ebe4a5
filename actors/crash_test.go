package actors_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"addon-operator/testkit"
	"addon-operator/testkit/devclustertest"
)

// Design 2, 4: whatever message an actor crashes over, before it is handled or after, the next operator makes of
// the cluster what this one would have made. Without -full, the operator that starts as the leader crashes over each
// message that it gets; with -short, it is every third message.
func TestCrashOverEachMessage(t *testing.T) {
	t.Parallel()
	// What this lifecycle does not have: pages, timers after failures, runs that come before their hooks are loaded,
	// bindings that are too large, webhooks, and what the random model kills in (TestRandom).
	never := strings.Fields("CheckConfig ScheduleFired ShutDown getHooks RetryNow " +
		"SynchronizeLater leaveDue " +
		"keepAgain delayedReload watchAgain " +
		"modulesSeen objectsDue SuspensionChanged RequestReload " +
		"Review ServeReviews KeepReviews lookDue")
	handled := handledMessages(t)
	if !devclustertest.Full() {
		handled = everyThird(handled)
	}
	if raced {
		handled = everyThird(handled)
	}
	crashed := map[string]bool{}
	stage := testkit.NewStage(t, txtar.Parse([]byte(crashScript)))
	undisturbed := stage.Play(t, stage.Script, 0)
	for _, message := range handled {
		for _, when := range []string{"over", "after"} {
			if !devclustertest.Full() && (when == "after" || slices.Contains(never, message)) {
				continue
			}
			played := stage.Play(t, "respawn\ncrash * "+when+" "+message+"\n"+stage.Script, 0)
			crashed[message] = crashed[message] || strings.Contains(played.Trace, "actor crashed")
			if want, got := undisturbed.Left, played.Left; want != got || len(played.Problems) > 0 {
				t.Errorf("it crashes %s %s; left is\n%s\nwithout it\n%s\nproblems %q\n%s", when, message, got, want, played.Problems, played.Trace)
			}
		}
	}
	for _, message := range handled {
		if crashed[message] == slices.Contains(never, message) {
			t.Errorf("%s: crashed over %t; expected otherwise", message, crashed[message])
		}
	}
}

func everyThird(all []string) (some []string) {
	for i := 0; i < len(all); i += 3 {
		some = append(some, all[i])
	}
	return some
}

// crashScript has each kind of work that a lifecycle may have.
const crashScript = `
-- script --
width 2
allow-purge
last-valid
drift correct 1m
release old
start
object Pod d/one
object Node one
advance 1m
health a-b InProgress
configmap-set a size: 1
configmap-set dEnabled true
object Pod d/two
advance 40s
health a-b Current
advance 1s
delete ConfigMap default/a-a
change c-a x
advance 30s
forbid Pod
object Pod d/three
advance 1s
permit Pod
advance 10s
fail-helm b 1
fail-helm c 4
configmap-set c size: 1
advance 30s
configmap-set global x: 0
advance 10s
hook-waits c 2s
slow-helm a 10s
configmap-set global x: 1
advance 1s
configmap-set global x: 2
advance 20s
slow-helm a 0s
configmap-set b wanted: false
advance 5s
configmap-set b wanted: true
advance 5s
secret-set a token: x
configmap-set aMaintenance NoResourceReconciliation
configmap-set a size: 2
advance 5s
configmap-remove aMaintenance
write modules/050-e/Chart.yaml chart.yaml
configmap-set eEnabled true
advance 5s
write modules/010-a/values.yaml own.yaml
write modules/020-b/hooks/h.sh bound.sh
notice-disk
advance 5s
write modules/values.yaml more.yaml
notice-disk
advance 5s
write modules/040-d/Chart.yaml broken.yaml
notice-disk
advance 5s
write modules/040-d/Chart.yaml own-chart.yaml
notice-disk
advance 5s
rename modules/030-c modules/035-c
configmap-set dEnabled false
advance 30s
remove modules/050-e
configmap-set global x: 3
confirm-purge x
advance 10s
configmap-set aEnabled false
advance 10s
configmap-set aEnabled true
advance 1m
advance 1m
-- global-hooks/g.sh --
#!testkit
config: {configVersion: v1, onStartup: 1, afterAll: 1, kubernetes: [{name: nodes, kind: Node, queue: nodes}]}
runs:
  onStartup: {values: [{op: add, path: /global/begun, value: 1}, {op: add, path: /cEnabled, value: true}]}
  nodes: {count: /global/nodes}
-- modules/values.yaml --
aEnabled: true
bEnabled: true
-- chart.yaml --
name: e
-- own.yaml --
a: {own: 1}
-- more.yaml --
aEnabled: true
bEnabled: true
global: {more: 1}
d: {more: 1}
-- own-chart.yaml --
name: d
-- broken.yaml --
name: [
-- modules/010-a/hooks/h.sh --
#!testkit
config: {configVersion: v1, onStartup: 1, beforeHelm: 1, afterHelm: 1, kubernetes: [{name: pods, kind: Pod, queue: side}], schedule: [{name: tick, crontab: "@every 50s", queue: side}]}
runs:
  onStartup: {config: [{op: add, path: /a/saved, value: true}], values: [{op: add, path: /a/kept, value: 1}]}
  pods: {count: /a/pods, objects: [{operation: CreateOrUpdate, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: default}}}]}
-- modules/020-b/enabled --
#!testkit
enabledBy: b.wanted
-- modules/020-b/hooks/h.sh --
#!testkit
config: {configVersion: v1, kubernetes: [{name: pods, kind: Pod, includeSnapshotsFrom: [pods]}]}
runs:
  pods: {count: /b/pods}
-- bound.sh --
#!testkit
config: {configVersion: v1, afterHelm: 1, kubernetes: [{name: pods, kind: Pod}]}
runs:
  pods: {count: /b/pods}
-- modules/010-a/Chart.yaml --
name: a
keywords: [deployment]
-- modules/020-b/Chart.yaml --
name: b
-- modules/030-c/Chart.yaml --
name: c
keywords: [job]
-- modules/040-d/Chart.yaml --
name: d
`

// handledMessages are the types of the cases in the functions in which actors receive messages, in this package and
// those below it.
func handledMessages(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, path := range append(paths, below...) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return n.Name.Name == "Receive" || n.Name.Name == "receive"
			case *ast.CaseClause:
				for _, message := range n.List {
					if name := types.ExprString(message); !strings.HasPrefix(name, "*actor.") {
						all[name[strings.LastIndex(name, ".")+1:]] = true
					}
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(all))
}
