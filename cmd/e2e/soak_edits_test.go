package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// soakEdits are the faults that are somebody's writes.
func soakEdits() []soakFault {
	return []soakFault{
		{"ConfigMap: values edited", 4, (*soak).editValues},
		{"ConfigMap: a module switched on or off …", 6, (*soak).switchModule},
		{"ConfigMap: made invalid", 3, (*soak).spoilConfig},
		{"ConfigMap: three writers at once …", 4, (*soak).threeWriters},
		{"ConfigMap: replaced by force …", 3, (*soak).replaceConfig},
		{"ConfigMap: deleted, and back a while later …", 4, (*soak).deleteConfig},
		{"Secret with values: edited", 3, (*soak).editSecret},
		{"Secret with values: made invalid", 4, (*soak).spoilSecret},
		{"Secret with values: replaced by force …", 3, (*soak).replaceSecret},
		{"Secret with values: deleted, and back a while later …", 4, (*soak).deleteSecret},
		{"ConfigMap and Secret with values: deleted, and back a while later …", 2, (*soak).deleteBoth},
		{"release: an object changed by somebody …", 4, (*soak).changeObject},
		{"release: an object deleted …", 6, (*soak).deleteObject},
		{"release: records deleted …", 3, (*soak).deleteRecords},
		{"modules: the directory is empty", 3, (*soak).emptyModules},
		{"modules: one is away …", 2, (*soak).removeModule},
		{"tenants: 100 edits a second …", 5, (*soak).floodEdits},
	}
}

// writeConfig makes the ConfigMap say what the model says; the section of keys is that of hooks.
func (s *soak) writeConfig() { s.setConfig(s.model.config()) }

func (s *soak) editValues(draw *rand.Rand) {
	m := s.model
	m.mu.Lock()
	m.size = 1 + draw.IntN(9)
	if draw.IntN(3) == 0 {
		m.zone = string("abcde"[draw.IntN(5)])
	}
	m.mu.Unlock()
	s.writeConfig()
}

// switchModule draws twice when the first one is on: most modules are on most of the time.
func (s *soak) switchModule(draw *rand.Rand) {
	name, other := soakModules[draw.IntN(len(soakModules))], soakModules[draw.IntN(len(soakModules))]
	m := s.model
	m.mu.Lock()
	if m.off[other] {
		name = other
	}
	if m.touched[name] {
		m.mu.Unlock()
		return
	}
	m.off[name], m.switched[name] = !m.off[name], true
	s.note("%s: off is %t", name, m.off[name])
	m.mu.Unlock()
	s.writeConfig()
	s.count("ConfigMap: a module switched on or off", 1)
}

// spoilConfig leaves an invalid ConfigMap behind, until the next edit of a person.
func (s *soak) spoilConfig(draw *rand.Rand) {
	texts := s.model.config()
	switch draw.IntN(5) {
	case 0:
		texts["plain"] = "size: many\n"
	case 1:
		texts["global"] = "zone: [\n"
	case 2:
		texts["Not-Camel"] = "a: 1\n"
		defer func() { s.setConfig(map[string]string{"Not-Camel": ""}) }()
	case 3:
		texts["stranger"] = aliasBomb(20_000)
	default:
		texts["wide"] = nestedBomb(2000)
		defer func() { s.setConfig(map[string]string{"wide": ""}) }()
	}
	s.setConfig(texts)
	s.pause(time.Duration(100+draw.IntN(1000)) * time.Millisecond)
}

// threeWriters: a person who edits a section, hooks that save values, and another controller, which
// writes a key of its own and an annotation.
func (s *soak) threeWriters(draw *rand.Rand) {
	const edits = 15
	for range edits {
		s.editValues(draw)
		s.model.mu.Lock()
		s.model.notes++
		note := fmt.Sprintf("notes: %d\n", s.model.notes)
		s.model.mu.Unlock()
		ctx, cancel := s.soon()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/note":%q}},"data":{"stranger":%q}}`, note, note)
		_, err := s.client.CoreV1().ConfigMaps(s.namespace).Patch(ctx, "addon-operator", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		cancel()
		if err != nil {
			s.note("the other controller: %v", err)
		}
	}
	s.count("ConfigMap: one edit of three writers", 2*edits)
}

func (s *soak) replaceConfig(*rand.Rand) { s.without(0, false, true, false) }

func (s *soak) deleteConfig(draw *rand.Rand) { s.withoutFor(draw, true, false) }

func (s *soak) replaceSecret(*rand.Rand) { s.without(0, false, false, true) }

func (s *soak) deleteSecret(draw *rand.Rand) { s.withoutFor(draw, false, true) }

func (s *soak) deleteBoth(draw *rand.Rand) { s.withoutFor(draw, true, true) }

func (s *soak) withoutFor(draw *rand.Rand, config, secret bool) {
	s.without(time.Duration(200+draw.IntN(4000))*time.Millisecond, draw.IntN(2) == 0, config, secret)
}

// writeSecret makes the Secret with values say what the model says.
func (s *soak) writeSecret() { s.setSecretKeys(s.model.secret()) }

// setSecretKeys writes keys as a person does who applies a file: those of others stay.
func (s *soak) setSecretKeys(texts map[string]string) {
	secrets := s.client.CoreV1().Secrets(s.namespace)
	s.eventually("a write of the Secret without a conflict", func() error {
		ctx, cancel := s.soon()
		defer cancel()
		secret, err := secrets.Get(ctx, "addon-operator", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}, StringData: texts}, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		for key, text := range texts {
			if delete(secret.Data, key); text != "" {
				metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "example.com/writer", "a person")
				if secret.Data == nil {
					secret.Data = map[string][]byte{}
				}
				secret.Data[key] = []byte(text)
			}
		}
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		return err
	})
}

func (s *soak) editSecret(draw *rand.Rand) {
	s.model.mu.Lock()
	s.model.token = draw.IntN(1000)
	s.model.mu.Unlock()
	s.writeSecret()
}

// spoilSecret leaves an invalid Secret behind, until the next edit of a person.
func (s *soak) spoilSecret(draw *rand.Rand) {
	texts := s.model.secret()
	switch draw.IntN(4) {
	case 0:
		texts["safe"] = "token: " + marker + strings.Repeat("-too-long", 5) + "\n"
	case 1:
		texts["safe"] = "token: [" + marker + "\n"
	case 2:
		texts["safeEnabled"] = "false"
		defer func() { s.setSecretKeys(map[string]string{"safeEnabled": ""}) }()
	default:
		texts["wide"] = nestedBomb(2000)
		defer func() { s.setSecretKeys(map[string]string{"wide": ""}) }()
	}
	s.setSecretKeys(texts)
	if draw.IntN(2) == 0 {
		s.kubelet.kill("SIGKILL", syscall.SIGKILL)
	}
	s.pause(time.Duration(100+draw.IntN(3000)) * time.Millisecond)
}

// changeObject is somebody who edits a field that a chart has set, which drift puts back. Fields that no chart has
// set do not matter.
func (s *soak) changeObject(draw *rand.Rand) {
	if !s.correct {
		return
	}
	object := []struct{ name, field string }{{"plain", "size"}, {"wide-3", "zone"}, {"wide-7", "zone"}, {"naughty", "zone"}, {"safe", "file"}}[draw.IntN(5)]
	ctx, cancel := s.soon()
	defer cancel()
	patch := fmt.Sprintf(`{"data":{%q:"of somebody"}}`, object.field)
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Patch(ctx, object.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.note("ConfigMap %s changed: %v", object.name, err)
	if err == nil {
		s.count("release: an object changed by somebody", 1)
	}
}

// without deletes the ConfigMap, the Secret with values, or both, and creates them again with the same content.
// Nothing may go with them, also when the operator restarts meanwhile: then it has the content that it kept. It is
// kept a moment after it was seen, and the fault waits for that.
func (s *soak) without(pause time.Duration, kill, config, secret bool) {
	s.quiet()
	defer s.proxy.SetRate(s.usual)
	s.writeConfig()
	s.writeSecret()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	if o, _ := s.awaitSynced(); o == nil {
		s.note("no operator is at rest; nothing is deleted")
		return
	}
	configMaps, secrets := s.client.CoreV1().ConfigMaps(s.namespace), s.client.CoreV1().Secrets(s.namespace)
	cm, err := configMaps.Get(ctx, "addon-operator", metav1.GetOptions{})
	if err != nil {
		s.note("the ConfigMap stays: %v", err)
		return
	}
	layer, err := secrets.Get(ctx, "addon-operator", metav1.GetOptions{})
	if err != nil {
		s.note("the Secret stays: %v", err)
		return
	}
	if !slices.Equal(s.kept(), textsToKeep(cm.Data, textsOf(layer))) {
		s.note("another content is kept; nothing is deleted")
		return
	}
	s.proxy.SetRate(s.usual)
	if config {
		if err := configMaps.Delete(ctx, cm.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &cm.ResourceVersion}}); err != nil {
			s.note("the ConfigMap stays: %v", err)
			config = false
		}
	}
	if secret {
		if err := secrets.Delete(ctx, layer.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &layer.ResourceVersion}}); err != nil {
			s.note("the Secret stays: %v", err)
			secret = false
		}
	}
	switch how := map[bool]string{true: "deleted, and back a while later", false: "replaced by force"}[pause > 0]; {
	case config && secret:
		s.count("ConfigMap and Secret with values: "+how, 1)
	case config:
		s.count("ConfigMap: "+how, 1)
	case secret:
		s.count("Secret with values: "+how, 1)
	}
	if kill && (config || secret) && s.kubelet.kill("SIGKILL without ConfigMap or Secret", syscall.SIGKILL) {
		s.count("operator: SIGKILL without ConfigMap or Secret", 1)
	}
	s.pause(pause)
	if config {
		again := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: cm.Name, Annotations: cm.Annotations}, Data: cm.Data}
		if _, err := configMaps.Create(ctx, again, metav1.CreateOptions{}); err != nil {
			s.note("somebody was faster: %v", err) // a hook has saved something: the operator has created it
		}
	}
	if secret {
		again := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: layer.Name}, Data: layer.Data}
		if _, err := secrets.Create(ctx, again, metav1.CreateOptions{}); err != nil {
			s.note("somebody was faster: %v", err)
		}
	}
}

// quiet ends what disturbs from outside.
func (s *soak) quiet() {
	s.proxy.SetRate(0)
	s.unask()
	s.kubelet.start()
}

// awaitSynced waits for an operator that has seen the ConfigMap as it is; nil when there is none soon.
func (s *soak) awaitSynced() (*operator, int) {
	deadline := time.Now().Add(20 * time.Second)
	s.model.mu.Lock()
	s.model.round++
	round := fmt.Sprintf("round: %d\n", s.model.round)
	s.model.mu.Unlock()
	s.writeConfig()
	for time.Now().Before(deadline) {
		o, run := s.kubelet.now()
		if o != nil {
			code, _ := get(o.public + "/readyz")
			_, config := get("http://" + o.debug + "/global/config.yaml")
			_, verbose := get(o.public + "/readyz?verbose")
			if code == 200 && strings.Contains(config, round) && !strings.Contains(verbose, "REFUSED") {
				return o, run
			}
		}
		s.pause(pollInterval)
	}
	return nil, 0
}

// deleteObject deletes an object that a chart has deployed.
func (s *soak) deleteObject(draw *rand.Rand) {
	all := slices.Sorted(maps.Keys(s.model.deployed()))
	if len(all) == 0 {
		return
	}
	kind, name, _ := strings.Cut(all[draw.IntN(len(all))], " ")
	ctx, cancel := s.soon()
	defer cancel()
	core := s.client.CoreV1()
	var err error
	switch kind {
	case "ConfigMap":
		err = core.ConfigMaps(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	case "Secret":
		err = core.Secrets(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	default:
		err = core.ServiceAccounts(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	s.note("%s %s deleted: %v", kind, name, err)
	if err == nil {
		s.count("release: an object deleted", 1)
	}
}

// deleteRecords deletes the last or all records of a release. It is not known then which objects were its own, so the
// module stays on for the rest of the round.
func (s *soak) deleteRecords(draw *rand.Rand) {
	name := soakModules[draw.IntN(len(soakModules))]
	all := draw.IntN(2) == 0
	m := s.model
	if m.touch(name) {
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
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int {
		return revision(b.Labels["version"]) - revision(a.Labels["version"])
	})
	for i := range list.Items {
		if i == 0 || all {
			err = secrets.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{})
			s.note("%s deleted: %v", list.Items[i].Name, err)
			s.count("release: a record deleted", 1)
		}
	}
}

// touch reports whether a module is off or was switched in this round; else it stays on for the rest of it.
func (m *soakModel) touch(name string) (refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off[name] || name == "seldom" {
		return true
	}
	m.touched[name] = true
	return false
}

// emptyModules puts an empty directory in the place of the modules and has the operator look at it, at a
// reload or at a start. The purge guard (P1) keeps all releases: none may go that was there and is wanted.
func (s *soak) emptyModules(draw *rand.Rand) {
	before := s.releases()
	s.pointModules("empty")
	if draw.IntN(2) == 0 {
		s.kubelet.kill("SIGKILL", syscall.SIGKILL)
	}
	s.editGlobal()
	s.pause(time.Duration(1000+draw.IntN(4000)) * time.Millisecond)
	after := s.releases()
	s.restoreModules()
	s.editGlobal()
	s.expectReleases(before, after, "the modules directory was empty")
}

// wasSwitched reports whether its release may go for another reason.
func (m *soakModel) wasSwitched(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.touched[name] || m.switched[name] || name == "seldom" // which has an enabled script
}

// releases are those that have a record; nil when there is no answer.
func (s *soak) releases() map[string]bool {
	ctx, cancel := s.soon()
	defer cancel()
	list, err := s.client.CoreV1().Secrets(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		return nil
	}
	all := map[string]bool{}
	for i := range list.Items {
		all[list.Items[i].Labels["name"]] = true
	}
	return all
}

// editGlobal has the operator reload.
func (s *soak) editGlobal() {
	s.model.mu.Lock()
	s.model.round++
	s.model.mu.Unlock()
	s.writeConfig()
}

// pointModules changes what the modules directory is, in one step.
func (s *soak) pointModules(to string) {
	s.remove("modules.next")
	if err := os.Symlink(to, s.path("modules.next")); err != nil {
		s.t.Error(err)
	}
	s.rename("modules.next", "modules")
}

func (s *soak) restoreModules() {
	s.pointModules("all-modules")
	away, err := os.ReadDir(s.path("aside"))
	if err != nil {
		s.t.Error(err)
	}
	for _, e := range away {
		s.rename("aside/"+e.Name(), "all-modules/"+e.Name())
	}
}

// removeModule takes one module away, whose release may be purged: one reload may purge a single one.
func (s *soak) removeModule(draw *rand.Rand) {
	name := soakModules[draw.IntN(len(soakModules))]
	if s.model.touch(name) {
		return
	}
	dir := fmt.Sprintf("%03d-%s", 10*(1+slices.Index(soakModules, name)), name)
	s.note("%s is away", dir)
	s.count("modules: one is away", 1)
	s.rename("all-modules/"+dir, "aside/"+dir)
	s.editGlobal()
	s.pause(time.Duration(500+draw.IntN(2500)) * time.Millisecond)
	s.restoreModules()
	s.editGlobal()
}

// floodEdits has tenants edit objects that a hook watches, 100 times a second, while the next faults happen.
func (s *soak) floodEdits(draw *rand.Rand) {
	const edits, pause = 200, 10 * time.Millisecond
	source := rand.New(rand.NewPCG(draw.Uint64(), 3)) // repeatable on purpose
	s.model.tenants.Go(func() {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for n := range edits {
			select {
			case <-ticker.C:
			case <-s.ctx.Done():
				return
			}
			tenant := source.IntN(tenants)
			bucket := -1
			if n%50 == 0 {
				bucket = source.IntN(100)
			}
			s.writeTenant(tenant, fmt.Sprintf("edit-%d", source.IntN(1_000_000)), bucket)
			s.count("tenants: one edit", 1)
		}
	})
}

// writeTenant edits the object of a tenant until it is known what it holds. A bucket below 0 stays as it is.
func (s *soak) writeTenant(tenant int, text string, bucket int) {
	m := s.model
	m.edits.Lock()
	defer m.edits.Unlock()
	if bucket < 0 {
		bucket = m.bucket[tenant] // only this goroutine writes it
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tenant-%d", tenant), Labels: map[string]string{"tenant": "yes"}},
		Data:       map[string]string{"text": text, "bucket": fmt.Sprint(bucket)},
	}
	for s.ctx.Err() == nil {
		err := s.putObject(cm)
		if err == nil {
			m.mu.Lock()
			m.texts[tenant], m.bucket[tenant] = text, bucket
			m.mu.Unlock()
			return
		}
		s.pause(50 * time.Millisecond)
	}
}

func (s *soak) putObject(cm *corev1.ConfigMap) error {
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	configMaps := s.client.CoreV1().ConfigMaps(s.namespace)
	_, err := configMaps.Update(ctx, cm, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configMaps.Create(ctx, cm, metav1.CreateOptions{})
	}
	return err
}
