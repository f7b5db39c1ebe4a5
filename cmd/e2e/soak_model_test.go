package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"addon-operator/kube"
)

// tenants is how many objects others own that the hook of the module watch looks at.
const tenants = 5

// soakModel is what must be when the operator has come to rest, computed without it: the modules of
// testdata/soak.txtar as functions of what people, controllers and tenants wrote last, and of the values that hooks
// have saved.
type soakModel struct {
	tenants sync.WaitGroup // who writes at the moment
	edits   sync.Mutex     // edits of objects of tenants follow each other

	mu      sync.Mutex
	size    int
	zone    string
	token   int // of the Secret with values
	round   int // the last edit of each round
	notes   int // writes of another controller
	edition int // of the template of naughty, on disk
	off     map[string]bool
	texts   [tenants]string
	bucket  [tenants]int
	// touched are modules that this round has taken something away from, so that they must stay on: of a module that is
	// switched off while its records are gone, it is not known what to delete. switched are those whose flag was changed.
	touched, switched map[string]bool
	seen              map[string]string // values that hooks have saved, and seen in the ConfigMap afterwards
	read              int               // bytes of out/seen

	strangers map[string]string // objects of others, with their versions
	watches   []string          // with all modules on, learnt before the first fault
	routines  int               // likewise
	files     int               // open ones, likewise
}

func newModel() *soakModel {
	return &soakModel{size: 1, zone: "a", off: map[string]bool{}, seen: map[string]string{}}
}

// soakModules are those that the ConfigMap may switch off, and what they own.
var soakModules = []string{"plain", "keys", "watch", "naughty", "seldom", "wide", "safe", "guarded"} //nolint:gochecknoglobals // a constant

func (m *soakModel) beginRound() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.touched, m.switched = map[string]bool{}, map[string]bool{}
}

// config is the ConfigMap as people write it: all but the section of keys, which belongs to hooks.
func (m *soakModel) config() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	data := map[string]string{
		"global":       fmt.Sprintf("zone: %s # people write comments, too\nround: %d\n", m.zone, m.round),
		"plain":        fmt.Sprintf("size: %d\npassword: %s\n", m.size, marker),
		"stranger":     fmt.Sprintf("notes: %d\n", m.notes),
		"emptyEnabled": "true",
	}
	for _, name := range soakModules {
		data[name+"Enabled"] = strconv.FormatBool(!m.off[name])
	}
	return data
}

// secret is the Secret with values as people write it: all but the section of keys.
func (m *soakModel) secret() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]string{"safe": fmt.Sprintf("token: %s\nnote: %q\n", m.tokenText(), fmt.Sprint("round ", m.round))}
}

// tokenText is what the Secret holds; the caller holds the lock.
func (m *soakModel) tokenText() string { return fmt.Sprintf("%s-t%d", marker, m.token) }

// enabled are the modules that must have a release.
func (m *soakModel) enabled() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(soakModules), func(name string) bool {
		return m.off[name] || name == "seldom" && m.zone == "e"
	})
}

// secrets are texts that must not be shown.
func (m *soakModel) secrets() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if password := m.seen["password"]; password != "" {
		return []string{marker, password}
	}
	return []string{marker}
}

// deployed are the objects of charts, with their data.
func (m *soakModel) deployed() map[string]string {
	issued, tokens := map[string]string{}, map[string]string{}
	m.mu.Lock()
	for key, value := range m.seen {
		if name, ok := strings.CutPrefix(key, "token-"); ok {
			tokens[name] = value
		} else if key != "password" {
			issued[key] = value
		}
	}
	zone, size, password, token, edition := m.zone, strconv.Itoa(m.size), m.seen["password"], m.tokenText(), strconv.Itoa(m.edition)
	m.mu.Unlock()
	all := map[string]string{}
	object := func(name string, pairs ...string) {
		data := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			data[pairs[i]] = pairs[i+1]
		}
		all[name] = asJSON(data)
	}
	for _, module := range m.enabled() {
		switch module {
		case "plain":
			object("ConfigMap plain", "size", size, "zone", zone, "derived", "from-"+zone)
			object("Secret plain", "password", marker)
			object("ServiceAccount plain")
		case "keys":
			object("ConfigMap keys", "issued", asJSON(issued))
			object("Secret keys", "password", password, "tokens", asJSON(tokens))
		case "watch":
			object("ConfigMap watch", "buckets", m.buckets())
		case "safe":
			object("ConfigMap safe", "file", "[login]\nit = "+token+"\n")
			object("Secret safe", "token", token)
		case "guarded":
			object("ConfigMap guarded", "zone", zone)
			object("ConfigMap guarded-by-kind", "zone", zone)
		case "naughty":
			object("ConfigMap naughty", "zone", zone, "edition", edition)
		case "seldom":
			object("ConfigMap seldom", "zone", zone)
		case "wide":
			for i := range 12 {
				object("ConfigMap wide-"+strconv.Itoa(i), "zone", zone)
			}
		}
	}
	return all
}

func (m *soakModel) buckets() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, b := range m.bucket {
		all = append(all, strconv.Itoa(b))
	}
	return strings.Join(all, ",")
}

// state is what the hook of watch makes of the objects of tenants.
func (m *soakModel) state() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for i, text := range m.texts {
		all = append(all, fmt.Sprintf("tenant-%d=%s", i, text))
	}
	return strings.Join(all, ",")
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts always can
	}
	return string(data)
}

// wrong lists what is not as it must be; empty when the operator has converged.
func (s *soak) wrong() []string {
	o, run := s.kubelet.now()
	if o == nil {
		return []string{"no operator runs"}
	}
	s.readSeen()
	var wrong []string
	for _, look := range []func(*operator) []string{
		s.wrongConverge, s.wrongQueues, s.wrongConfig, s.wrongObjects, s.wrongRecords, s.wrongState, s.wrongStrangers, s.wrongWatches, s.wrongSizes, s.wrongFiles,
	} {
		if wrong = append(wrong, look(o)...); len(wrong) > 20 {
			break
		}
	}
	for r := 1; r < run; r++ {
		if run-r < 20 && len(s.processesOf(r, false)) > 0 {
			wrong = append(wrong, fmt.Sprintf("processes of operator %d, which has ended: %q", r, s.processesOf(r, false)))
		}
	}
	return wrong
}

// readSeen reads what hooks have seen. A value that changes is lost.
func (s *soak) readSeen() {
	data, err := os.ReadFile(s.path("out/seen"))
	if err != nil {
		return // no hook has run yet
	}
	m := s.model
	m.mu.Lock()
	defer m.mu.Unlock()
	end := strings.LastIndexByte(string(data), '\n') + 1
	for line := range strings.Lines(string(data[m.read:end])) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if before, ok := m.seen[key]; ok && before != value {
			s.violated("%s was %q, and a hook has seen %q: a saved value is lost", key, before, value)
		}
		m.seen[key] = value
	}
	m.read = end
}

func (s *soak) wrongConverge(o *operator) []string {
	if code, body := get(o.public + "/readyz?verbose"); code != http.StatusOK || strings.Contains(body, "REFUSED") || strings.Contains(body, "held back") {
		return []string{fmt.Sprintf("/readyz?verbose says %d: %s", code, body)}
	}
	if _, body := get(o.public + "/status/converge"); body != "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n" {
		return []string{"/status/converge says " + body}
	}
	return nil
}

func (s *soak) wrongQueues(o *operator) []string {
	_, body := get("http://" + o.debug + "/queue/list.json")
	var list struct {
		Active []struct {
			Name       string
			TasksCount int
			Tasks      []struct{ Description, Error string }
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return []string{fmt.Sprintf("/queue/list: %v in %q", err, body)}
	}
	var wrong []string
	for _, q := range list.Active {
		for _, t := range q.Tasks {
			wrong = append(wrong, fmt.Sprintf("queue %s holds %s %s", q.Name, t.Description, t.Error))
		}
	}
	return wrong
}

// wrongConfig compares the ConfigMap with what everybody wrote, and looks for lost keys.
func (s *soak) wrongConfig(*operator) (wrong []string) {
	ctx, cancel := s.soon()
	defer cancel()
	cm, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, "addon-operator", metav1.GetOptions{})
	if err != nil {
		return []string{"the ConfigMap: " + err.Error()}
	}
	secret, err := s.client.CoreV1().Secrets(s.namespace).Get(ctx, "addon-operator", metav1.GetOptions{})
	if err != nil {
		return []string{"the Secret with values: " + err.Error()}
	}
	texts := textsOf(secret)
	if kept, want := s.kept(), textsToKeep(cm.Data, texts); !slices.Equal(kept, want) {
		wrong = append(wrong, fmt.Sprintf("the last valid content that is kept is %q, want %q", kept, want))
	}
	found, err := savedKeys(cm.Data["keys"], texts["keys"])
	if err != nil {
		return append(wrong, err.Error())
	}
	delete(cm.Data, "keys")
	if want := s.model.config(); !maps.Equal(cm.Data, want) {
		wrong = append(wrong, fmt.Sprintf("the ConfigMap is %q, want %q", cm.Data, want))
	}
	delete(texts, "keys")
	if want := s.model.secret(); !maps.Equal(texts, want) {
		wrong = append(wrong, fmt.Sprintf("the Secret with values is %q, want %q", texts, want))
	}
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	for key, value := range s.model.seen {
		if found[key] != value {
			wrong = append(wrong, fmt.Sprintf("the saved value %s was %q and is %q", key, value, found[key]))
		}
	}
	if len(found) != len(s.model.seen) && !s.model.off["keys"] {
		wrong = append(wrong, fmt.Sprintf("hooks have seen %d of %d saved values", len(s.model.seen), len(found)))
	}
	return wrong
}

// savedKeys are the values that hooks have saved, from the two texts of their section.
func savedKeys(config, secret string) (map[string]string, error) {
	var keys struct {
		Password       string
		Issued, Tokens map[string]string
	}
	for _, text := range []string{config, secret} {
		if err := yaml.Unmarshal([]byte(text), &keys); err != nil {
			return nil, fmt.Errorf("the section keys: %w", err)
		}
	}
	found := map[string]string{"password": keys.Password}
	maps.Copy(found, keys.Issued)
	for key, token := range keys.Tokens {
		found["token-"+key] = token
	}
	return found, nil
}

func textsOf(secret *corev1.Secret) map[string]string {
	texts := map[string]string{}
	for key, text := range secret.Data {
		texts[key] = string(text)
	}
	return texts
}

// kept are the texts that the operator would start with, sorted: under which keys it keeps them is its business. nil
// when they cannot be read.
func (s *soak) kept() []string {
	ctx, cancel := s.soon()
	defer cancel()
	secret, err := s.client.CoreV1().Secrets(s.namespace).Get(ctx, kube.LastValidName("addon-operator"), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Values(textsOf(secret)))
}

// textsToKeep are those of these contents of the ConfigMap and of the Secret with values, sorted.
func textsToKeep(config, secret map[string]string) []string {
	return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(config)), slices.Collect(maps.Values(secret)))))
}

// wrongObjects compares all objects that the operator has deployed with those that must be.
func (s *soak) wrongObjects(*operator) (wrong []string) {
	ctx, cancel := s.soon()
	defer cancel()
	ours := metav1.ListOptions{LabelSelector: "heritage=addon-operator"}
	found := map[string]string{}
	configMaps, err := s.client.CoreV1().ConfigMaps(s.namespace).List(ctx, ours)
	if err != nil {
		return []string{err.Error()}
	}
	for i := range configMaps.Items {
		found["ConfigMap "+configMaps.Items[i].Name] = asJSON(configMaps.Items[i].Data)
	}
	secrets, err := s.client.CoreV1().Secrets(s.namespace).List(ctx, ours)
	if err != nil {
		return []string{err.Error()}
	}
	for i := range secrets.Items {
		data := map[string]string{}
		for key, value := range secrets.Items[i].Data {
			data[key] = string(value)
		}
		found["Secret "+secrets.Items[i].Name] = asJSON(data)
	}
	accounts, err := s.client.CoreV1().ServiceAccounts(s.namespace).List(ctx, ours)
	if err != nil {
		return []string{err.Error()}
	}
	for i := range accounts.Items {
		found["ServiceAccount "+accounts.Items[i].Name] = "{}"
	}
	return differences(found, s.model.deployed())
}

// differences lists what is not as it is wanted.
func differences(found, want map[string]string) (wrong []string) {
	all := maps.Clone(found)
	maps.Copy(all, want)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if found[name] != want[name] {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", name, found[name], want[name]))
		}
	}
	return wrong
}

// wrongRecords looks at the releases: the last revision of each is deployed, and there is none of modules that are
// off. An older one may be recorded as deployed: Helm takes the last one (H8).
func (s *soak) wrongRecords(*operator) (wrong []string) {
	ctx, cancel := s.soon()
	defer cancel()
	list, err := s.client.CoreV1().Secrets(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name!=vault"})
	if err != nil {
		return []string{err.Error()}
	}
	revisions, want := map[string]string{}, map[string]string{}
	highest, count := map[string]int{}, map[string]int{}
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int { // the last one first
		return revision(b.Labels["version"]) - revision(a.Labels["version"])
	})
	for i := range list.Items {
		labels := list.Items[i].Labels
		name, number := labels["name"], revision(labels["version"])
		count[name]++
		if number > highest[name] {
			highest[name], revisions[name] = number, labels["status"]
		} else if strings.HasPrefix(labels["status"], "pending") {
			wrong = append(wrong, fmt.Sprintf("revision %d of release %s is %s", number, name, labels["status"]))
		}
	}
	for _, name := range s.model.enabled() {
		want[name] = "deployed"
	}
	for _, line := range differences(revisions, want) {
		wrong = append(wrong, "the last revision of release "+line)
	}
	for name, n := range count {
		const limit = 10 // HELM_HISTORY_MAX
		if n > limit+s.undeleted(name) {
			wrong = append(wrong, fmt.Sprintf("release %s has %d revisions, want at most %d", name, n, limit))
		}
	}
	return wrong
}

// undeleted is how many records of a release stay until its next revision, because the API server has refused to
// delete them: the log says so (H7).
func (s *soak) undeleted(release string) int {
	record := regexp.MustCompile(`an old release record stays for now .*record=sh\.helm\.release\.v1\.` + regexp.QuoteMeta(release) + `\.v\d+`)
	refused := map[string]bool{}
	for _, line := range s.kubelet.log(100_000) {
		if found := record.FindString(line); found != "" {
			refused[found[strings.LastIndex(found, "=")+1:]] = true
		}
	}
	return len(refused)
}

// wrongState compares what a hook has written about objects of tenants with these.
func (s *soak) wrongState(*operator) []string {
	if !slices.Contains(s.model.enabled(), "watch") {
		return nil
	}
	ctx, cancel := s.soon()
	defer cancel()
	cm, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, "watch-state", metav1.GetOptions{})
	if err != nil {
		return []string{"what the hook of watch writes: " + err.Error()}
	}
	if want := s.model.state(); cm.Data["state"] != want {
		return []string{fmt.Sprintf("the hook of watch has written %q, want %q", cm.Data["state"], want)}
	}
	return nil
}

func (s *soak) wrongStrangers(*operator) (wrong []string) {
	ctx, cancel := s.soon()
	defer cancel()
	for name, want := range s.model.strangers {
		kind, name, _ := strings.Cut(name, " ")
		var object metav1.Object
		var err error
		if kind == "Secret" {
			object, err = s.client.CoreV1().Secrets(s.namespace).Get(ctx, name, metav1.GetOptions{})
		} else {
			object, err = s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			wrong = append(wrong, "an object of others: "+err.Error())
		} else if version(object) != want {
			wrong = append(wrong, fmt.Sprintf("%s %s of others was %s and is %s", kind, name, want, version(object)))
		}
	}
	return wrong
}

// wrongWatches: with all modules on, the same watches as before the first fault; else fewer.
func (s *soak) wrongWatches(*operator) (wrong []string) {
	if s.model.watches == nil {
		return nil
	}
	found := s.proxy.Watches()
	left := slices.Clone(s.model.watches)
	for _, w := range found {
		i := slices.Index(left, w)
		if i < 0 {
			wrong = append(wrong, "one watch too many: "+w)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	if len(left) > 0 && len(s.model.enabled()) == len(soakModules) {
		wrong = append(wrong, fmt.Sprintf("watches are missing: %q", left))
	}
	return wrong
}

// What a process may have more than before the first fault: connections of this test.
const more = 25

func (s *soak) wrongSizes(o *operator) (wrong []string) {
	routines, files := s.sizes(o)
	if s.model.routines > 0 && routines > s.model.routines+more {
		wrong = append(wrong, fmt.Sprintf("%d goroutines, at the beginning %d", routines, s.model.routines))
	}
	if s.model.files > 0 && files > s.model.files+more {
		wrong = append(wrong, fmt.Sprintf("%d open files, at the beginning %d", files, s.model.files))
	}
	return wrong
}

// sizes are the goroutines and open files of an operator.
func (s *soak) sizes(o *operator) (routines, files int) {
	_, body := get(o.public + "/metrics")
	for line := range strings.Lines(body) {
		var n float64
		if _, err := fmt.Sscanf(line, "go_goroutines %g", &n); err == nil {
			routines = int(n)
		}
		if _, err := fmt.Sscanf(line, "process_open_fds %g", &n); err == nil {
			files = int(n)
		}
	}
	return routines, files
}

// wrongFiles looks for files of runs that have ended. Those of a run that lasts are young.
func (s *soak) wrongFiles(*operator) (wrong []string) {
	const young = 8 * time.Second // hooks may run for 5
	var locks []string            // each Pod has one file, by which its next container sees that the last one has ended
	for _, run := s.kubelet.now(); run > 0; run-- {
		locks = append(locks, "lease-"+soakPod(run))
	}
	for _, dir := range []string{"tmp", "tmp-of-others", "home"} {
		entries, err := os.ReadDir(s.path(dir))
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for _, e := range entries {
			if dir == "tmp" && slices.Contains(locks, e.Name()) {
				continue
			}
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > young {
				wrong = append(wrong, fmt.Sprintf("left in %s: %s", dir, e.Name()))
			}
		}
	}
	return wrong
}

// learn notes what the operator uses before the first fault.
func (s *soak) learn() {
	o, _ := s.kubelet.now()
	s.model.watches = s.proxy.Watches()
	s.model.routines, s.model.files = s.sizes(o)
	s.note("at rest: %d watches, %d goroutines, %d open files", len(s.model.watches), s.model.routines, s.model.files)
}

// leaks reads all pages and Events, where no secret may be.
func (k *kubelet) leaks() {
	s := k.soak
	o, _ := k.now()
	if o == nil {
		return
	}
	for _, page := range []string{"", "readyz?verbose", "metrics", "metrics/hooks", "queue", "discovery"} {
		_, body := get(o.public + "/" + page)
		s.expectNoSecret("the public page /"+page, body)
	}
	pages := []string{
		"", "readyz?verbose", "queue/list", "global/list", "global/values", "global/config", "global/patches", "global/snapshots",
		"module/list", "module/resource-monitor", "hook/list", "plan", "status", "actors", "config/list",
		"values/explain?module=safe&path=safe", "values/explain?module=plain&path=plain", "values/explain?module=keys&path=keys", "hook/030-watch/hooks/tenants.sh/snapshots",
	}
	for _, module := range soakModules {
		for _, page := range []string{"values", "config", "patches", "snapshots", "status", "render", "drift"} {
			pages = append(pages, "module/"+module+"/"+page)
		}
	}
	for _, page := range pages {
		_, body := get("http://" + o.debug + "/" + page)
		s.expectNoSecret("the debug page /"+page, body)
	}
	ctx, cancel := s.soon()
	defer cancel()
	events, err := s.client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the log of the next round has it
	}
	for i := range events.Items {
		s.expectNoSecret("an Event", events.Items[i].Message+asJSON(events.Items[i].Annotations))
	}
}

func (s *soak) expectNoSecret(where, text string) {
	for _, secret := range s.model.secrets() {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			if at := strings.Index(text, form); at >= 0 {
				s.violated("%s shows a secret: …%s", where, text[max(0, at-100):min(len(text), at+60)])
			}
		}
	}
}
