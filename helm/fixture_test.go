package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/release"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/kube"
	"addon-operator/testkit/devclustertest"
)

// fixture is a namespace of a real cluster with a Client in it.
type fixture struct {
	*testing.T
	cluster   *devclustertest.Cluster
	client    *Client
	kube      kubernetes.Interface
	mapper    meta.ResettableRESTMapper
	namespace string
	config    *rest.Config
	log       *logBuffer
	labels    map[string]string
	recordsIn Driver
	blind     bool   // without watches
	watchAs   string // user of the watches; empty: as the client
	stop      context.CancelFunc
	news      *newsLog
	presence  *kube.Presence // nil: blind
}

// newsLog collects what the watches tell.
type newsLog struct {
	mu      sync.Mutex
	gone    []Object
	notices []string
}

func (n *newsLog) take() (gone []Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	gone, n.gone = n.gone, nil
	return gone
}

// logBuffer collects log lines; Helm writes them from several goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	return startOn(t, devclustertest.Start(t))
}

func startOn(t *testing.T, cluster *devclustertest.Cluster) *fixture {
	t.Helper()
	f := &fixture{T: t, cluster: cluster, namespace: cluster.Namespace(t), config: cluster.RESTConfig(), log: &logBuffer{}}
	var err error
	f.kube, err = kubernetes.NewForConfig(f.config)
	must(t, err)
	f.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(f.kube.Discovery()))
	f.restart()
	return f
}

// caughtUp waits until the watches know what the cluster has.
func (f *fixture) caughtUp() {
	f.Helper()
	if f.blind {
		return
	}
	f.eventually(f.kindsCaughtUp)
}

func (f *fixture) kindsCaughtUp() bool {
	f.Helper()
	for _, kind := range f.presence.WatchedKinds() {
		of := schema.ParseGroupResource(kind.Resource).WithVersion("")
		resource, err := f.mapper.ResourceFor(of)
		if meta.IsNoMatchError(err) {
			f.mapper.Reset()
			resource, err = f.mapper.ResourceFor(of)
		}
		if meta.IsNoMatchError(err) {
			continue // the kind is gone
		}
		must(f, err)
		list, err := f.client.root.metadata.Resource(resource).List(f.Context(), metav1.ListOptions{LabelSelector: managedByHelm})
		if apierrors.IsNotFound(err) {
			list, err = &metav1.PartialObjectMetadataList{}, nil
		}
		must(f, err)
		there := 0
		for _, m := range list.Items {
			if m.Annotations[ownerNamespace] != f.namespace {
				continue
			}
			there++
			if !f.client.Present(Object{GVK: m.GroupVersionKind(), Namespace: m.Namespace, Name: m.Name}) {
				return false
			}
		}
		if there != kind.Objects {
			return false
		}
	}
	return true
}

func (f *fixture) notify(text string) {
	f.news.mu.Lock()
	defer f.news.mu.Unlock()
	f.news.notices = append(f.news.notices, text)
}

// told are the notices of the client since its start.
func (f *fixture) told() []string {
	f.news.mu.Lock()
	defer f.news.mu.Unlock()
	return f.news.notices
}

// restart replaces the client by a new one, as a restart of the operator does.
func (f *fixture) restart() {
	f.Helper()
	if f.stop != nil {
		f.stop()
	}
	options := Options{
		Config: f.config, Namespace: f.namespace, Driver: f.recordsIn, HistoryMax: 3, Labels: f.labels,
		Log:    slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Notify: f.notify,
	}
	if !f.blind {
		watcher := watches(f.T, f.kubeconfig(f.watchAs), options.Log)
		f.presence = kube.NewPresence(watcher, 0) // no test waits for a pause between attempts to watch
		options.Watcher, options.Presence = watcher, f.presence
	}
	var err error
	f.client, err = New(options)
	must(f, err)
	f.news = &newsLog{}
	news := f.news
	ctx, stop := context.WithCancel(f.Context())
	f.stop = stop
	f.client.Watch(ctx, News{
		Health: func(Object, Health) {},
		Gone: func(o Object) {
			news.mu.Lock()
			defer news.mu.Unlock()
			news.gone = append(news.gone, o)
		},
	})
}

// kubeconfig is the path of a kubeconfig, for a user without rights if one is
// named.
func (f *fixture) kubeconfig(user string) string {
	f.Helper()
	path := f.cluster.Kubeconfig()
	if user == "" {
		return path
	}
	config, err := clientcmd.LoadFromFile(path)
	must(f, err)
	for _, auth := range config.AuthInfos {
		auth.Impersonate = user
	}
	path = filepath.Join(f.TempDir(), "kubeconfig")
	must(f, clientcmd.WriteToFile(*config, path))
	return path
}

// grant lets a user do what the rules say, in the whole cluster. It waits until the API server knows that, which it
// does a moment later.
func (f *fixture) grant(user string, rules ...rbacv1.PolicyRule) {
	f.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	must(f, second(f.kube.RbacV1().ClusterRoles().Create(f.Context(), role, metav1.CreateOptions{})))
	must(f, second(f.kube.RbacV1().ClusterRoleBindings().Create(f.Context(), binding, metav1.CreateOptions{})))
	f.Cleanup(func() {
		_ = f.kube.RbacV1().ClusterRoles().Delete(context.Background(), user, metav1.DeleteOptions{})
		_ = f.kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), user, metav1.DeleteOptions{})
	})
	last := rules[len(rules)-1]
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Group: last.APIGroups[0], Resource: last.Resources[0], Verb: last.Verbs[0],
	}}}
	f.eventually(func() bool {
		answer, err := f.kube.AuthorizationV1().SubjectAccessReviews().Create(f.Context(), review, metav1.CreateOptions{})
		must(f, err)
		return answer.Status.Allowed
	})
}

// limited is a client that may do only what the rules say.
func (f *fixture) limited(rules ...rbacv1.PolicyRule) *Client {
	f.Helper()
	config := rest.CopyConfig(f.config)
	config.Impersonate.UserName = f.namespace + "-limited"
	f.grant(config.Impersonate.UserName, rules...)
	client, err := New(Options{Config: config, Namespace: f.namespace, HistoryMax: 3})
	must(f, err)
	return client
}

// module writes the files of testdata/<name>.txtar into a directory.
func module(t testing.TB, name string) Module {
	t.Helper()
	archive, err := os.ReadFile(filepath.Join("testdata", name+".txtar"))
	must(t, err)
	return moduleOf(t, name, string(archive))
}

// moduleOf is module with the text of the archive.
func moduleOf(t testing.TB, name, archive string) Module {
	t.Helper()
	m := Module{Name: name, Key: name, Dir: t.TempDir(), Values: map[string]any{"global": map[string]any{}, name: map[string]any{}}}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		write(t, m, f.Name, string(f.Data))
	}
	return m
}

func write(t testing.TB, m Module, name, text string) {
	t.Helper()
	path := filepath.Join(m.Dir, filepath.FromSlash(name))
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// remove removes a file of a module.
func remove(t testing.TB, m Module, name string) {
	t.Helper()
	must(t, os.Remove(filepath.Join(m.Dir, name)))
}

func (m Module) with(key string, value any) Module {
	section := map[string]any{}
	maps.Copy(section, m.Values[m.Key].(map[string]any))
	section[key] = value
	values := map[string]any{}
	maps.Copy(values, m.Values)
	values[m.Key] = section
	m.Values = values
	return m
}

// apply expects an outcome; revision 0 is not compared.
func (f *fixture) apply(m Module, want Action, revision int) Outcome {
	f.Helper()
	f.caughtUp()
	got, err := f.client.Apply(f.Context(), m)
	if err != nil {
		f.Fatalf("apply: %v\nlog:\n%s", err, f.log)
	}
	if got.Action != want || revision != 0 && got.Revision != revision {
		f.Fatalf("apply: %s, revision %d (%s); want %s, revision %d\nlog:\n%s", got.Action, got.Revision, got.Reason, want, revision, f.log)
	}
	return got
}

// refuse expects an error of a kind and returns it.
func (f *fixture) refuse(m Module, kind Kind) error {
	f.Helper()
	f.caughtUp()
	outcome, err := f.client.Apply(f.Context(), m)
	var problem *Error
	if !errors.As(err, &problem) {
		f.Fatalf("apply: %+v, %v; want an *Error", outcome, err)
	}
	if problem.Kind != kind || problem.Release != m.Name {
		f.Fatalf("apply: kind %s of release %q (%v), want %s", problem.Kind, problem.Release, err, kind)
	}
	return err
}

func (f *fixture) uninstall(release string, want bool) {
	f.Helper()
	existed, err := f.client.Uninstall(f.Context(), Module{Name: release})
	if err != nil || existed != want {
		f.Fatalf("uninstall: existed %v, %v; want %v\nlog:\n%s", existed, err, want, f.log)
	}
}

// configMap returns the data of a ConfigMap, nil when there is none.
func (f *fixture) configMap(name string) map[string]string {
	f.Helper()
	cm, err := f.kube.CoreV1().ConfigMaps(f.namespace).Get(f.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(f, err)
	if cm.Data == nil {
		return map[string]string{}
	}
	return cm.Data
}

// kept expects ConfigMaps that are there; wrong says what else has happened.
func (f *fixture) kept(wrong string, names ...string) {
	f.Helper()
	for _, name := range names {
		if f.configMap(name) == nil {
			f.Errorf("%s: ConfigMap %s is gone", wrong, name)
		}
	}
}

// gone expects ConfigMaps that are not there.
func (f *fixture) gone(wrong string, names ...string) {
	f.Helper()
	for _, name := range names {
		if f.configMap(name) != nil {
			f.Errorf("%s: ConfigMap %s is there", wrong, name)
		}
	}
}

func (f *fixture) create(name string, data, annotations map[string]string) {
	f.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Data: data}
	must(f, second(f.kube.CoreV1().ConfigMaps(f.namespace).Create(f.Context(), cm, metav1.CreateOptions{})))
}

func (f *fixture) deleteConfigMap(name string) {
	f.Helper()
	must(f, f.kube.CoreV1().ConfigMaps(f.namespace).Delete(f.Context(), name, metav1.DeleteOptions{}))
}

// revisions returns the records of a release as "version status", oldest first.
func (f *fixture) revisions(release string) []string {
	f.Helper()
	fresh := newRecords(f.client.root.metadata, f.recordsIn, f.namespace)
	state, err := fresh.read(f.Context(), release)
	must(f, err)
	out := []string{}
	for _, r := range state.Revisions {
		out = append(out, r.labels["version"]+" "+string(r.Status))
	}
	return out
}

func (f *fixture) wantRevisions(release string, want ...string) {
	f.Helper()
	if got := f.revisions(release); !slices.Equal(got, want) {
		f.Errorf("revisions of %s: %q, want %q", release, got, want)
	}
}

// setStatus changes a record by hand, as a killed operation would have left it.
func (f *fixture) setStatus(name string, version int, status string) {
	f.Helper()
	f.craft(name, version, func(s *corev1.Secret, rel *release.Release) {
		rel.Info.Status = statusOf(status)
		s.Labels["status"] = status
	})
}

func (f *fixture) editRecord(release string, version int, edit func(*corev1.Secret)) {
	f.Helper()
	secrets := f.kube.CoreV1().Secrets(f.namespace)
	s, err := secrets.Get(f.Context(), secretName(release, version), metav1.GetOptions{})
	must(f, err)
	edit(s)
	must(f, second(secrets.Update(f.Context(), s, metav1.UpdateOptions{})))
}

// jsonOf panics over what JSON does not know: two errors would be equal.
func jsonOf(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call whose result is not needed.
func second[V any](_ V, err error) error { return err }

// wantError expects an error that tells of everything.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not tell of %q", err, part)
		}
	}
}

func (f *fixture) lastRelease(name string) *release.Release {
	f.Helper()
	rel, err := f.stock().Releases.Last(name)
	must(f, err)
	return rel
}

// secretName is Helm's name for the record of one revision.
func secretName(release string, version int) string {
	return "sh.helm.release.v1." + release + ".v" + strconv.Itoa(version)
}

// watches connects the part of the operator that watches for package helm.
func watches(t testing.TB, kubeconfig string, log *slog.Logger) *kube.Client {
	t.Helper()
	client, err := kube.Connect(kube.Options{Kubeconfig: kubeconfig, Log: log})
	must(t, err)
	return client
}

// groupOf is an API group that no other test uses.
func groupOf(namespace string) string { return namespace + ".example.com" }

func (f *fixture) crds() dynamic.ResourceInterface {
	f.Helper()
	client, err := dynamic.NewForConfig(f.config)
	must(f, err)
	return client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

// createCRD adds the kind Thing, and waits until it is served.
func (f *fixture) createCRD() { f.createCRDOf("Thing") }

// createCRDOf does the same for a kind of another name, for tests that run at the same time as those that need Thing
// unknown.
func (f *fixture) createCRDOf(kind string) {
	f.Helper()
	preserve := true
	crd := &apiextensions.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "things." + groupOf(f.namespace)},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: groupOf(f.namespace),
			Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensions.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
				},
			}},
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	must(f, err)
	must(f, second(f.crds().Create(f.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})))
	f.Cleanup(func() { _ = f.crds().Delete(context.Background(), crd.Name, metav1.DeleteOptions{}) })
	f.eventually(func() bool {
		return f.kube.CoreV1().RESTClient().Get().AbsPath("/apis/"+groupOf(f.namespace)+"/v1/things").Do(f.Context()).Error() == nil
	})
}

func (f *fixture) deleteCRD() {
	f.Helper()
	must(f, f.crds().Delete(f.Context(), "things."+groupOf(f.namespace), metav1.DeleteOptions{}))
}

// eventually waits until a condition holds.
func (f *fixture) eventually(condition func() bool) {
	f.Helper()
	deadline := time.Now().Add(2 * time.Minute) // nothing measures it
	for !condition() {
		if time.Now().After(deadline) {
			f.Fatalf("the condition does not become true\nlog:\n%s", f.log)
		}
		pause := time.NewTimer(50 * time.Millisecond)
		select {
		case <-pause.C:
		case <-f.Context().Done():
			f.Fatal(f.Context().Err())
		}
	}
}
