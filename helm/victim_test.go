package helm

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// victimEnv makes the test binary an operator that only upgrades, to be killed.
const victimEnv = "ADDON_OPERATOR_TEST_VICTIM"

// victimOrder is what the victim has to do.
type victimOrder struct {
	Kubeconfig, Namespace string
	Name, Dir             string         // of the module
	Values                map[string]any // without the text
	Text                  string         // the value that makes the difference
}

func TestMain(m *testing.M) {
	if order := os.Getenv(victimEnv); order != "" {
		if err := victim(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim applies a module once and says when it begins and ends.
func victim(text string) error {
	var order victimOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", order.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := New(Options{Config: rest.CopyConfig(config), Namespace: order.Namespace, HistoryMax: 3})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "begin")
	_, err = client.Apply(context.Background(), Module{Name: order.Name, Key: order.Name, Dir: order.Dir, Values: order.Values}.with("text", order.Text))
	fmt.Fprintln(os.Stdout, "end")
	return err
}

const manyObjects = `
-- templates/all.yaml --
{{ range $i := until 12 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: victim-{{ $i }}}
data: {text: "{{ $.Values.victim.text }}"}
{{ end }}
`

// kills: make check asks for 50.
var kills = flag.Int("kills", 10, "kills of TestKilledAtRandomMoments")

// H8: the process is killed at random moments of installs and upgrades; whatever it
// left, the next one gets through without help.
func TestKilledAtRandomMoments(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "victim", manyObjects)
	rnd := rand.New(rand.NewPCG(20, 20))
	interrupted := 0
	f.runVictim(m, "first", 0)
	whole := f.runVictim(m, "measure", 0) // how long an undisturbed one takes
	f.uninstall("victim", true)
	for i := range *kills {
		text := fmt.Sprint("text ", i)
		f.runVictim(m, text, time.Duration(1+rnd.Int64N(int64(whole))))
		f.restart()
		if states := f.revisions("victim"); len(states) > 0 && strings.Contains(states[len(states)-1], "pending") {
			interrupted++
		}
		f.caughtUp()
		if _, err := f.client.Apply(t.Context(), m.with("text", text)); err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		f.apply(m.with("text", text), Skipped, 0)
		all, err := f.kube.CoreV1().ConfigMaps(f.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: managedByHelm})
		if err != nil || len(all.Items) != 12 {
			t.Fatalf("kill %d: %d objects, %v", i, len(all.Items), err)
		}
		for _, got := range all.Items {
			if got.Data["text"] != text {
				t.Fatalf("kill %d: %s has %q, want %q", i, got.Name, got.Data["text"], text)
			}
		}
		if i%7 == 6 { // the next one is a first install
			f.uninstall("victim", true)
		}
	}
	t.Logf("%d kills within %v of a run, %d left the release pending, all recovered", *kills, whole, interrupted)
}

// runVictim starts a victim and kills it some time after it has begun; 0 lets it finish.
// It reports how long it lived after its beginning.
func (f *fixture) runVictim(m Module, text string, life time.Duration) time.Duration {
	f.Helper()
	order, err := json.Marshal(victimOrder{Kubeconfig: f.kubeconfig(""), Namespace: f.namespace, Name: m.Name, Dir: m.Dir, Values: m.Values, Text: text})
	must(f, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+string(order))
	cmd.Stderr = f.log
	out, err := cmd.StdoutPipe()
	must(f, err)
	must(f, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Scan() // begin
	began := time.Now()
	if life > 0 {
		timer := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	for lines.Scan() { // end, or its death
	}
	lived := time.Since(began)
	if err := cmd.Wait(); err != nil && life == 0 {
		f.Fatalf("victim: %v\n%s", err, f.log)
	}
	return lived
}
