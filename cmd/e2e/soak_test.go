package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"addon-operator/testkit/devclustertest"
	"addon-operator/testkit/faultproxy"
)

// The soak test runs the program on a real API server for as long as SOAK_TIME says, disturbs it, lets it come to
// rest, and compares everything with a model. It goes in rounds: a burst of faults, the end of all faults, a wait
// with a deadline until all invariants hold. The faults of a round are drawn from SOAK_SEED; the same seed draws the
// same faults again, but not the same moments. SOAK_FAULTS, a regular expression, draws those with such a name alone.
//
//	soak_test.go           rounds and the report
//	soak_operator_test.go  who starts the operator again, watches its memory and reads its log
//	soak_faults_test.go    the faults
//	soak_edits_test.go     the faults that are writes of people, controllers and tenants
//	soak_disk_test.go      the faults that are changes of files
//	soak_model_test.go     what must hold

const (
	// burst is the number of faults in a round; some are many disturbances each.
	burst = 12
	// restLimit is how long the operator may take to converge when the faults are over. A failed task is tried again
	// after 30 s at most, a watch too, and the machine may be busy.
	restLimit = 3 * time.Minute
	// logTail is what a failure shows of the faults and of the operator's log.
	logTail = 60
)

// soak is one run of the test.
type soak struct {
	*fixture
	cluster *devclustertest.Cluster
	proxy   *faultproxy.Proxy
	objects dynamic.Interface
	draw    *rand.Rand
	seed    uint64
	began   time.Time

	side    *aggregated
	options []string // of the operator, drawn from the seed
	correct bool     // they have the operator put drift back

	usual float64 // the share of requests that is disturbed in this round

	kubelet *kubelet
	model   *soakModel

	mu      sync.Mutex
	faults  []string       // what was done, with its time
	counts  map[string]int // by kind
	broken  []string       // what must never be, seen at any time
	effects map[string]int // kills by effect and moment
}

// TestSoak is skipped unless SOAK_TIME says how long it takes: make soak.
func TestSoak(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("SOAK_TIME"))
	if err != nil {
		t.Skip("set SOAK_TIME to a duration such as 10m, or run make soak")
	}
	s := newSoak(t, soakSeed(t))
	rounds := 0
	var longest time.Duration
	for time.Since(s.began) < duration && !t.Failed() {
		rounds++
		s.note("--- round %d", rounds)
		s.round()
		s.heal()
		longest = max(longest, s.settle())
	}
	s.end()
	s.report(rounds, longest)
}

func soakSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SOAK_SEED")
	if text == "" {
		return uint64(time.Now().Unix())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SOAK_SEED: %v", err)
	}
	return seed
}

func newSoak(t *testing.T, seed uint64) *soak {
	t.Helper()
	t.Logf("soak: SOAK_SEED=%d draws the same faults again", seed)
	h, cluster := ownFixture(t, "soak", devclustertest.StartOwn)
	s := &soak{
		fixture: h, cluster: cluster, seed: seed, began: time.Now(), draw: rand.New(rand.NewPCG(seed, 1)), // repeatable on purpose
		counts: map[string]int{}, effects: map[string]int{}, side: aggregate(h),
	}
	s.proxy = faultproxy.New(t, cluster.RESTConfig(), seed)
	h.kubeconfig = s.proxy.Kubeconfig(t)
	objects, err := dynamic.NewForConfig(cluster.RESTConfig())
	must(t, err)
	s.objects = objects
	for _, dir := range []string{"out/ask", "out/took", "home", "tmp-of-others", "aside", "empty"} {
		h.mkdir(dir)
	}
	s.model = newModel()
	s.drawOptions()
	s.prepareDirs()
	s.plantStrangers()
	s.writeConfig()
	s.writeSecret()
	for i := range tenants {
		s.writeTenant(i, "first", i)
	}
	s.kubelet = newKubelet(s)
	s.settle()
	s.learn()
	return s
}

// drawOptions has each seed run another operator.
func (s *soak) drawOptions() {
	drift := []string{"off", "report", "correct"}[s.draw.IntN(3)]
	s.correct = drift == "correct"
	s.options = []string{
		"ADDON_OPERATOR_WATCH_MODULES=yes",
		"ADDON_OPERATOR_DRIFT=" + drift, fmt.Sprintf("ADDON_OPERATOR_PARALLEL_MODULES=%d", 1+3*s.draw.IntN(2)),
	}
	s.note("the operator runs with %s", strings.Join(s.options, " "))
}

// prepareDirs makes the modules directory a link, which can be changed in one step.
func (s *soak) prepareDirs() {
	s.t.Helper()
	s.rename("modules", "all-modules")
	must(s.t, os.Symlink("all-modules", s.path("modules")))
	s.mkdir("tmp")
}

// note writes a fault down.
func (s *soak) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf("%7.2fs ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	s.faults = append(s.faults, line)
	if os.Getenv("SOAK_VERBOSE") != "" {
		s.t.Log(line)
	}
}

// count counts disturbances.
func (s *soak) count(kind string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[kind] += n
}

// violated notes what must never be, whenever it is seen.
func (s *soak) violated(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.broken, text) {
		s.broken = append(s.broken, text)
	}
}

func (s *soak) violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.broken)
}

// pause lets some time of a fault pass; nothing waits for its end.
func (s *soak) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// round draws and commits faults.
func (s *soak) round() {
	s.model.beginRound()
	s.write("out/issue", "")
	s.usual = []float64{0, 0.05, 0.1, 0.2}[s.draw.IntN(4)]
	s.proxy.SetRate(s.usual)
	for range burst {
		f, own := s.drawFault()
		s.note("%s", f.name)
		if !strings.HasSuffix(f.name, "…") {
			s.count(f.name, 1)
		}
		f.commit(s, own)
		if len(s.violations()) > 0 {
			return
		}
		s.pause(time.Duration(own.IntN(200)) * time.Millisecond)
	}
}

// drawFault draws a fault, and the source of what is drawn within it: what one fault draws does
// not move the next.
func (s *soak) drawFault() (soakFault, *rand.Rand) {
	only := regexp.MustCompile(os.Getenv("SOAK_FAULTS")) // of their names; empty: all
	all := slices.DeleteFunc(soakFaults(), func(f soakFault) bool { return !only.MatchString(f.name) })
	total := 0
	for _, f := range all {
		total += f.weight
	}
	n, own := s.draw.IntN(total), rand.New(rand.NewPCG(s.draw.Uint64(), 2)) // repeatable on purpose
	for _, f := range all {
		if n -= f.weight; n < 0 {
			return f, own
		}
	}
	panic("unreachable")
}

// heal ends all faults and leaves the operator to itself, with one last edit of a person.
func (s *soak) heal() {
	s.note("the faults end")
	s.proxy.SetRate(0)
	s.proxy.OnWrite(nil)
	s.proxy.SetDown(false)
	s.cluster.Resume(s.t)
	s.kubelet.wake()
	s.deleteAPIService()
	s.side.come()
	s.unask()
	s.remove("out/issue")
	s.model.tenants.Wait()
	s.restoreModules()
	s.kubelet.start()
	s.model.round++
	s.writeConfig()
	s.writeSecret()
}

// settle waits until everything is as it must be, twice in a row, and returns how long that took.
func (s *soak) settle() time.Duration {
	s.t.Helper()
	began := time.Now()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	var wrong []string
	for good := 0; ; {
		if bad := s.violations(); len(bad) > 0 {
			s.fail("what must never be has been seen", bad)
			return 0
		}
		if wrong = s.wrong(); len(wrong) == 0 {
			good++
		} else {
			good = 0
		}
		if good == 2 {
			break
		}
		if time.Since(began) > restLimit {
			s.fail(fmt.Sprintf("%s after the end of the faults it is not as it must be", restLimit), wrong)
			return 0
		}
		<-ticker.C
	}
	s.kubelet.leaks()
	if bad := s.violations(); len(bad) > 0 {
		s.fail("what must never be has been seen", bad)
	}
	s.note("settled after %s", time.Since(began).Round(10*time.Millisecond))
	return time.Since(began)
}

// fail ends the test with what one needs to look for the cause.
func (s *soak) fail(what string, wrong []string) {
	s.t.Helper()
	s.mu.Lock()
	faults := slices.Clone(s.faults)
	s.mu.Unlock()
	s.t.Errorf("SOAK_SEED=%d: %s:\n  %s\n\nthe last faults:\n  %s\n\nthe log of the operator, its end:\n  %s",
		s.seed, what, shortened(wrong), shortened(tail(faults, logTail)), shortened(s.kubelet.log(logTail)))
	if dir := os.Getenv("SOAK_KEEP"); dir != "" {
		s.keep(dir)
	}
}

// keep writes everything down that is known.
func (s *soak) keep(dir string) {
	name := filepath.Join(dir, fmt.Sprintf("soak-%d.log", s.seed))
	text := strings.Join(s.faults, "\n") + "\n\n" + strings.Join(s.kubelet.log(1<<20), "\n")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Log(err)
	}
}

// shortened joins lines that people are to read.
func shortened(lines []string) string {
	const longest = 1000
	var text strings.Builder
	for i, line := range lines {
		if i > 0 {
			text.WriteString("\n  ")
		}
		text.WriteString(line[:min(len(line), longest)])
	}
	return text.String()
}

func tail(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// end stops the operator as a Pod ends.
func (s *soak) end() {
	if code := s.kubelet.stop(); code != 0 && !s.t.Failed() {
		s.fail(fmt.Sprintf("exit code %d after SIGTERM, want 0", code), nil)
	}
}

func (s *soak) report(rounds int, longest time.Duration) {
	counts := maps.Clone(s.counts)
	for kind, n := range s.proxy.Faults() {
		counts["request: "+kind] += n
	}
	total := 0
	var table strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		total += counts[kind]
		fmt.Fprintf(&table, "  %6d  %s\n", counts[kind], kind)
	}
	fmt.Fprintf(&table, "operators killed at a write:\n")
	for _, effect := range slices.Sorted(maps.Keys(s.effects)) {
		fmt.Fprintf(&table, "  %6d  %s\n", s.effects[effect], effect)
	}
	fmt.Fprintf(&table, "ends of the operator:\n")
	for _, why := range slices.Sorted(maps.Keys(s.kubelet.ends)) {
		fmt.Fprintf(&table, "  %6d  %s\n", s.kubelet.ends[why], why)
	}
	s.t.Logf("soak: SOAK_SEED=%d, %s, %s, %d rounds, %d faults, %d starts, %d converges, %d keys issued, peak memory %d MiB of %d, longest way to rest %s\n%s",
		s.seed, strings.Join(s.options, " "), time.Since(s.began).Round(time.Second), rounds, total, s.kubelet.started, s.kubelet.converges, len(s.model.seen)/2, s.kubelet.peak, memoryLimit, longest.Round(10*time.Millisecond), table.String())
}

// plantStrangers makes objects of no module, and remembers them.
func (s *soak) plantStrangers() {
	s.t.Helper()
	labels := map[string]string{"owner": "helm", "name": "vault", "version": "1", "status": "deployed"}
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1.vault.v1", Labels: labels}, Type: "helm.sh/release.v1", Data: map[string][]byte{"release": []byte("H4sIAAAAAAAA/wMAAAAAAAAAAAA=")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, Data: map[string][]byte{"any": []byte("thing")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "planted", Labels: map[string]string{"tenant": "yes"}}, Data: map[string][]byte{"password": []byte(marker)}},
	} {
		must(s.t, second(s.client.CoreV1().Secrets(s.namespace).Create(s.ctx, secret, metav1.CreateOptions{})))
	}
	cm := s.createConfigMap("stranger", "any", nil)
	s.model.strangers = map[string]string{"ConfigMap stranger": version(cm)}
	for _, name := range []string{"sh.helm.release.v1.vault.v1", "stranger", "planted"} {
		secret, err := s.client.CoreV1().Secrets(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
		must(s.t, err)
		s.model.strangers["Secret "+name] = version(secret)
	}
}

// version is the same until an object is written.
func version(o metav1.Object) string {
	return string(o.GetUID()) + " at resourceVersion " + o.GetResourceVersion()
}

// soon bounds a request of the test itself.
func (s *soak) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, 10*time.Second)
}
