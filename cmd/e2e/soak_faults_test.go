package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/testkit/faultproxy"
)

// soakFault is one sort of fault, and how often it is drawn. One that is many disturbances counts them itself: its
// name ends in dots.
type soakFault struct {
	name   string
	weight int
	commit func(*soak, *rand.Rand)
}

func soakFaults() []soakFault {
	return slices.Concat([]soakFault{
		{"operator: SIGKILL", 3, func(s *soak, _ *rand.Rand) { s.kubelet.kill("SIGKILL", syscall.SIGKILL) }},
		{"operator: SIGKILL before or after a write …", 14, (*soak).killAtWrite},
		{"operator: SIGKILL by a hook …", 4, (*soak).killByHook},
		{"operator: SIGTERM", 2, func(s *soak, _ *rand.Rand) { s.kubelet.kill("SIGTERM", syscall.SIGTERM) }},
		{"operator: stopped and woken up", 2, (*soak).stopOperator},
		{"API server: refuses connections", 3, (*soak).refuseConnections},
		{"API server: stopped and woken up", 3, (*soak).stopServer},
		{"API server: killed and restarted", 1, (*soak).restartServer},
		{"API server: disturbed requests …", 10, (*soak).disturb},
		{"API server: all watches cut …", 4, func(s *soak, _ *rand.Rand) { s.proxy.CutWatches() }},
		{"API server: an aggregated API is down from the start", 2, (*soak).breakAggregation},
		{"API server: an aggregated API goes down", 4, (*soak).sideDown},
		{"API server: restored from a backup of etcd …", 1, (*soak).restoreBackup},
		{"hooks misbehave …", 10, (*soak).misbehave},
		{"ports: half-sent requests …", 2, (*soak).halfSent},
	}, soakEdits(), soakDisk())
}

// killAtWrite kills the operator at one of its next writes: before the API server gets it, or when
// it has answered and the operator does not know it yet.
func (s *soak) killAtWrite(draw *rand.Rand) {
	const attempts, pause = 6, 700 * time.Millisecond // the operator may be waiting for the Lease
	skip, done := draw.IntN(6), draw.IntN(2) == 1
	// Renewals of the Lease come all the time and Events often: most kills are for the others.
	anything := draw.IntN(5) == 0
	fired := make(chan struct{})
	s.proxy.OnWrite(func(w faultproxy.Write) bool {
		if w.Done != done || !anything && (strings.HasSuffix(w.Effect, " leases") || strings.HasSuffix(w.Effect, " events")) {
			return false
		}
		if skip--; skip >= 0 {
			return false
		}
		moment := "before "
		if done {
			moment = "after "
		}
		if skip == -1 && s.kubelet.kill("SIGKILL at a write", syscall.SIGKILL) {
			s.note("killed %s%s %s (%d)", moment, w.Effect, w.Path, w.Status)
			s.mu.Lock()
			s.effects[moment+w.Effect]++
			s.counts["operator: SIGKILL at a write"]++
			s.mu.Unlock()
			close(fired)
		}
		return true
	})
	defer s.proxy.OnWrite(nil)
	for range attempts {
		s.provoke(draw)
		select {
		case <-fired:
			return
		case <-time.After(pause):
		}
	}
	s.note("there was no such write")
}

// provoke gives the operator something to write.
func (s *soak) provoke(draw *rand.Rand) {
	if draw.IntN(2) == 0 {
		s.editValues(draw)
	} else {
		s.deleteObject(draw)
	}
}

func (s *soak) killByHook(draw *rand.Rand) {
	s.ask([]string{"kills-operator-at-start", "kills-operator-at-end"}[draw.IntN(2)])
	s.provoke(draw)
}

// stopOperator is a machine that hangs: longer than the lease, and the operator must not go on.
func (s *soak) stopOperator(draw *rand.Rand) {
	s.kubelet.signal(syscall.SIGSTOP)
	s.pause(time.Duration(200+draw.IntN(3000)) * time.Millisecond)
	s.kubelet.wake()
}

func (s *soak) refuseConnections(draw *rand.Rand) {
	s.proxy.SetDown(true)
	s.pause(time.Duration(100+draw.IntN(2000)) * time.Millisecond)
	s.proxy.SetDown(false)
}

func (s *soak) stopServer(draw *rand.Rand) {
	s.cluster.Pause(s.t)
	s.pause(time.Duration(100+draw.IntN(2000)) * time.Millisecond)
	s.cluster.Resume(s.t)
}

func (s *soak) restartServer(*rand.Rand) { s.cluster.Restart(s.t) }

// disturb has a share of the requests fail from now on, or none.
func (s *soak) disturb(draw *rand.Rand) {
	rate := []float64{0.05, 0.2, 0.5, 0.8}[draw.IntN(4)]
	s.note("%.0f%% of the requests are disturbed", rate*100)
	s.proxy.SetRate(rate)
	for range 3 + draw.IntN(8) {
		s.provoke(draw)
		s.pause(time.Duration(100+draw.IntN(300)) * time.Millisecond)
	}
	if draw.IntN(3) > 0 {
		s.proxy.SetRate(s.usual)
	}
}

// apiService is the aggregated API without a server.
const apiService = "v1.soak.example.com"

func apiServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
}

func (s *soak) breakAggregation(draw *rand.Rand) {
	ctx, cancel := s.soon()
	defer cancel()
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": apiService},
		"spec": map[string]any{
			"group": "soak.example.com", "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": s.namespace, "name": "nobody"},
		},
	}}
	if _, err := s.objects.Resource(apiServices()).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		s.note("%v", err)
	}
	s.provoke(draw)
	s.pause(time.Duration(draw.IntN(1500)) * time.Millisecond)
}

// sideDown takes the aggregated API away that the chart of guarded asks for: its object must stay (P13), also when an
// operator starts meanwhile, which cannot know the kinds of the API.
func (s *soak) sideDown(draw *rand.Rand) {
	before := s.guardedByKind()
	s.side.goDown()
	defer s.side.come()
	s.editValues(draw)
	s.model.mu.Lock()
	s.model.zone = string("abcde"[draw.IntN(5)])
	s.model.mu.Unlock()
	s.editGlobal()
	if draw.IntN(2) == 0 {
		s.kubelet.kill("SIGKILL", syscall.SIGKILL)
	}
	s.pause(time.Duration(1000+draw.IntN(4000)) * time.Millisecond)
	if before == nil && apierrors.IsNotFound(s.guardedByKind()) && slices.Contains(s.model.enabled(), "guarded") && !s.model.wasSwitched("guarded") {
		s.violated("an object went with the aggregated API that its chart asks for")
	}
}

func (s *soak) guardedByKind() error {
	ctx, cancel := s.soon()
	defer cancel()
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, "guarded-by-kind", metav1.GetOptions{})
	return err
}

// restoreBackup puts the cluster back to an earlier state under a running operator (P14). What is restored is true
// from then on, and people write again what they want. Values that hooks saved after the backup would be lost with
// it, so they save none.
func (s *soak) restoreBackup(draw *rand.Rand) {
	s.remove("out/issue")
	s.pause(6 * time.Second) // hooks that run may save a value, and take 5 s at most
	if o, _ := s.awaitSynced(); o == nil {
		s.note("no operator is at rest; no backup")
		return
	}
	s.model.tenants.Wait()
	restore := s.cluster.Backup(s.t)
	s.model.mu.Lock()
	for _, name := range soakModules {
		s.model.touched[name] = true // releases and flags of the backup must fit
	}
	s.model.mu.Unlock()
	for range 3 + draw.IntN(4) {
		s.provoke(draw)
		s.writeTenant(draw.IntN(tenants), fmt.Sprint("late-", draw.IntN(1000)), -1)
	}
	s.scribble() // so that the versions of the backup are not reached again before the operator has seen the restore
	o, run := s.kubelet.now()
	restore()
	s.count("API server: restored from a backup of etcd", 1)
	for range 100 {
		if _, now := s.kubelet.now(); o == nil || now != run || o.count("the cluster has gone back to an earlier state") > 0 {
			break
		}
		s.pause(100 * time.Millisecond)
	}
	for i := range tenants {
		s.model.mu.Lock()
		text := s.model.texts[i]
		s.model.mu.Unlock()
		s.writeTenant(i, text, -1)
	}
	s.editGlobal()
	s.writeSecret()
}

// scribble has the API server count up its versions.
func (s *soak) scribble() {
	const writes = 1000
	for i := range writes {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "scribble"}, Data: map[string]string{"i": fmt.Sprint(i)}}
		if err := s.putObject(cm); err != nil {
			s.note("scribble: %v", err)
		}
	}
}

func (s *soak) deleteAPIService() {
	s.eventually("an end of the aggregated API", func() error {
		ctx, cancel := s.soon()
		defer cancel()
		err := s.objects.Resource(apiServices()).Delete(ctx, apiService, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// misbehave asks the next hooks to misbehave: prelude.sh in testdata/soak.txtar knows how.
func (s *soak) misbehave(draw *rand.Rand) {
	all := []string{
		"fails-after-its-work", "exits-with-1", "dies-by-signal", "hangs", "hangs-deaf", "floods-lines", "floods-one-line",
		"leaves-a-child", "leaves-a-daemon", "writes-too-much", "writes-nonsense",
	}
	for range 1 + draw.IntN(4) {
		s.ask(all[draw.IntN(len(all))])
	}
	if draw.IntN(2) == 0 {
		s.editValues(draw) // hooks of module runs misbehave then, too
	}
	s.pause(time.Duration(draw.IntN(1500)) * time.Millisecond)
}

func (s *soak) ask(what string) {
	s.note("a hook %s", what)
	s.write("out/ask/"+what, "")
}

// unask takes back what no hook has done yet, and counts what was done.
func (s *soak) unask() {
	s.remove("out/ask")
	s.mkdir("out/ask")
	done, _ := filepath.Glob(s.path("out/took/*")) // the pattern is good
	for _, path := range done {
		what, _, _ := strings.Cut(filepath.Base(path), ".")
		s.count("hook "+what, 1)
		_ = os.Remove(path) // counted twice at worst
	}
}

// halfSent opens many connections that send the beginning of a request, and leaves them.
func (s *soak) halfSent(*rand.Rand) {
	o, _ := s.kubelet.now()
	if o == nil {
		return
	}
	const connections = 150
	s.count("half-sent request", connections)
	var dialer net.Dialer
	for i := range connections {
		address := o.debug
		if i%2 == 0 {
			address = strings.TrimPrefix(o.public, "http://")
		}
		c, err := dialer.DialContext(s.ctx, "tcp", address)
		if err != nil {
			continue // it has ended
		}
		_, _ = fmt.Fprintf(c, "GET /queue HTTP/1.1\r\nHost: localhost\r\nX-Large: %s", strings.Repeat("x", 4000)) // it may be refused
		time.AfterFunc(2*time.Second, func() { _ = c.Close() })
	}
}
