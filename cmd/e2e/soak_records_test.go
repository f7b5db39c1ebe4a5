package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/testkit/faultproxy"
)

// soakRecords are the faults of release records, of templates and of the Lease that have destroyed something once.
func soakRecords() []soakFault {
	return []soakFault{
		{"release: the write that supersedes a revision fails …", 4, (*soak).failSuperseding},
		{"release: a DELETE of a record is answered, and not done …", 3, (*soak).pretendDelete},
		{"disk: a template emptied", 4, (*soak).emptyTemplate},
		{"release: a forged record …", 3, (*soak).forgeRecord},
		{"Lease: an absurd duration", 2, (*soak).stretchLease},
	}
}

// failSuperseding has the API server refuse to mark old revisions: Helm ignores that, and two would be deployed.
func (s *soak) failSuperseding(draw *rand.Rand) {
	const what = "release: a write that supersedes a revision failed"
	s.answerFor(draw, what, func(effect string, body []byte) *faultproxy.Answer {
		if effect != "PUT records" || !bytes.Contains(body, []byte("superseded")) {
			return nil
		}
		const body503 = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`
		return &faultproxy.Answer{Status: http.StatusServiceUnavailable, Body: body503}
	})
}

// answerFor has the proxy answer writes for a while in which there is something to write, and counts the answers.
func (s *soak) answerFor(draw *rand.Rand, name string, say func(effect string, body []byte) *faultproxy.Answer) {
	s.proxy.AnswerWrites(func(effect string, body []byte) *faultproxy.Answer {
		answer := say(effect, body)
		if answer != nil {
			s.note("%s: answered %d", effect, answer.Status)
			s.count(name, 1)
		}
		return answer
	})
	defer s.proxy.AnswerWrites(nil)
	for range 2 + draw.IntN(4) {
		s.model.mu.Lock()
		s.model.zone = string("abcde"[draw.IntN(5)]) // which upgrades most modules
		s.model.mu.Unlock()
		s.editGlobal()
		s.pause(time.Duration(300+draw.IntN(700)) * time.Millisecond)
	}
}

// notDone is the fault of pretendDelete.
const notDone = "release: a DELETE of a record was answered, and not done"

// tooMany lists releases with more revisions than are kept. One whose deletion was answered and not done is deleted
// with the next revision, so at rest it may still be there.
func (s *soak) tooMany(count map[string]int) (wrong []string) {
	kept := 10 + s.counted(notDone) // HELM_HISTORY_MAX
	for name, n := range count {
		if n > kept {
			wrong = append(wrong, fmt.Sprintf("release %s has %d revisions, want at most %d", name, n, kept))
		}
	}
	return wrong
}

// pretendDelete answers deletions of records as a broken proxy does.
func (s *soak) pretendDelete(draw *rand.Rand) {
	s.answerFor(draw, notDone, func(effect string, _ []byte) *faultproxy.Answer {
		if effect != "DELETE records" {
			return nil
		}
		return &faultproxy.Answer{Status: http.StatusOK, Body: "{}"}
	})
}

// emptyTemplate leaves a template without content, as a full disk does. Its object must stay the same.
func (s *soak) emptyTemplate(draw *rand.Rand) {
	before, _ := s.uidOf("naughty")
	s.write(soakTemplate, "")
	s.editGlobal()
	s.pause(time.Duration(1000+draw.IntN(3000)) * time.Millisecond)
	after, err := s.uidOf("naughty")
	s.write(soakTemplate, s.model.nextEdition())
	known := before != "" && (err == nil || apierrors.IsNotFound(err))
	wanted := slices.Contains(s.model.enabled(), "naughty") && !s.model.wasSwitched("naughty")
	if known && wanted && after != before {
		s.violated("ConfigMap naughty was %s and is %q: it went with the content of its template", before, after)
	}
}

func (s *soak) uidOf(name string) (types.UID, error) {
	ctx, cancel := s.soon()
	defer cancel()
	cm, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return cm.UID, nil
}

// forgeRecord writes a newer record of a module, which claims objects of others. They must keep their UID, which is
// checked at rest.
func (s *soak) forgeRecord(draw *rand.Rand) {
	name := soakModules[draw.IntN(len(soakModules))]
	if s.model.touch(name) {
		return
	}
	ctx, cancel := s.soon()
	defer cancel()
	secrets := s.client.CoreV1().Secrets(s.namespace)
	list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + name})
	if err != nil {
		s.note("records of %s: %v", name, err)
		return
	}
	version := 1
	for i := range list.Items {
		version = max(version, revision(list.Items[i].Labels["version"])+1)
	}
	rel := &release.Release{
		Name: name, Namespace: s.namespace, Version: version, Info: &release.Info{Status: release.StatusDeployed},
		Chart:  &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: name, Version: "1.0.0"}},
		Labels: map[string]string{"moduleChecksum": "0123456789abcdef"},
		Manifest: "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: stranger}\n" +
			"---\napiVersion: v1\nkind: Secret\nmetadata: {name: stranger}\n",
	}
	err = driver.NewSecrets(secrets).Create(fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, version), rel)
	s.note("a forged revision %d of %s: %v", version, name, err)
	if err == nil {
		s.count("release: a forged record", 1)
	}
	s.pause(time.Duration(draw.IntN(3000)) * time.Millisecond)
}

// stretchLease has another client write an absurd duration and an absurd number of transitions, which a new operator
// finds.
func (s *soak) stretchLease(*rand.Rand) {
	ctx, cancel := s.soon()
	defer cancel()
	const patch = `{"spec":{"leaseDurationSeconds":2147483647,"leaseTransitions":2147483647}}`
	leases := s.client.CoordinationV1().Leases(s.namespace)
	_, err := leases.Patch(ctx, "addon-operator-leader-election", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.note("the Lease lasts: %v", err)
	s.kubelet.kill("SIGKILL", syscall.SIGKILL)
}
