package webhooks

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"addon-operator/kube"
	"addon-operator/values"
)

const (
	// SecretName is the Secret with the certificate, in the namespace of the operator.
	SecretName = "addon-operator-webhooks"
	// Label is on all that an operator configures; its value is the namespace of the operator. The owner is in the
	// annotation of the same name.
	Label = "addon-operator/webhooks"
	// LeaderLabel is on the Pod that answers, with the value true. The Service of the chart selects it.
	LeaderLabel = "addon-operator/leads"
	// manager of the fields, another one than that of CRDs (M3).
	manager = "addon-operator-webhooks"

	requestTimeout = 30 * time.Second // modules wait for the first of them

	definitions = "apiextensions.k8s.io"

	usualLife   = 365 * 24 * time.Hour
	usualSettle = time.Minute // until all API servers have taken a bundle into use
)

// Options are where webhooks are served, and how long certificates live.
type Options struct {
	Client    *kube.Client
	Log       *slog.Logger
	Namespace string // of the operator
	// Address is where the operator listens, host:port. Without Service the API server calls it there.
	Address string
	Service string // name of a Service of the namespace; empty for none
	Dir     string // with the certificate of another issuer; empty: the operator makes its own
	Pod     string // of this process, if it is one of several; empty: no Pod is labelled
	// Listen begins to answer with the certificate of the moment; it is called once, when something is configured. It
	// returns the address.
	Listen func(certificate func() (*tls.Certificate, error)) (address string, err error)
	// Life of certificates, and how long the API server may take to see a new bundle; 0: a year, a minute.
	Life, Settle time.Duration
}

// Webhooks are the configurations of one operator. Its methods must not be called at the same time.
type Webhooks struct {
	options  Options
	client   dynamic.Interface
	metadata metadata.Interface

	certs   *certificates
	began   time.Time
	served  atomic.Pointer[tls.Certificate]
	applied time.Time // since when all configurations have the bundle; zero: they have not
	listens bool
	owners  map[string]bool // of what is in the cluster
	absent  bool            // a CRD that is to be converted
}

// New makes no request.
func New(o Options) (*Webhooks, error) {
	if o.Life == 0 {
		o.Life, o.Settle = usualLife, usualSettle
	}
	config := o.Client.RESTConfig()
	config.Timeout = requestTimeout
	client, err1 := dynamic.NewForConfig(config)
	meta, err2 := metadata.NewForConfig(config)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("client for webhooks: %w", err)
	}
	return &Webhooks{options: o, client: client, metadata: meta, began: time.Now()}, nil
}

// Wanted is what is to be configured.
type Wanted struct {
	Owners map[string]Owned // what is of them and not here goes
	// Keep says whether what is of another owner stays; nil: all of it.
	Keep func(owner string) bool
}

// Owned are the webhooks of an owner. Those that validate have the same fields.
type Owned struct {
	Validating, Mutating []admissionv1.MutatingWebhook
	CRDs                 []string // whose objects are converted
}

func (o Owned) empty() bool { return len(o.Validating)+len(o.Mutating)+len(o.CRDs) == 0 }

// after is what is to be in the cluster, given what is.
func (w Wanted) after(found map[string]Owned) map[string]Owned {
	after := maps.Clone(w.Owners)
	for owner, owned := range found {
		if _, known := after[owner]; !known && (w.Keep == nil || w.Keep(owner)) {
			after[owner] = owned
		}
	}
	maps.DeleteFunc(after, func(_ string, owned Owned) bool { return owned.empty() })
	return after
}

// Paths below which webhooks are called: PATH/OWNER/NAME, where the name of a conversion is that of its CRD.
const (
	ValidatePath = "/validate/"
	MutatePath   = "/mutate/"
	ConvertPath  = "/convert/"
)

// configured is a kind of configuration.
type configured struct {
	kind, path string
	of         func(*Owned) *list
}

type list = []admissionv1.MutatingWebhook

// kinds are those of configurations, by resource.
func kinds() map[string]configured {
	return map[string]configured{
		"validatingwebhookconfigurations": {"ValidatingWebhookConfiguration", ValidatePath, func(o *Owned) *list { return &o.Validating }},
		"mutatingwebhookconfigurations":   {"MutatingWebhookConfiguration", MutatePath, func(o *Owned) *list { return &o.Mutating }},
	}
}

func v1(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}

// Applied is the outcome of Apply.
type Applied struct {
	Owners map[string]bool  // of whom something is in the cluster
	Failed map[string]error // by owner; by an empty one what has failed for all
}

// Apply makes the cluster as it should be: the certificate, the configurations, the conversion of CRDs. As long as
// nothing is wanted and nothing is there it makes neither a certificate nor a listener. What is there, and is neither
// wanted nor to go, gets the address and the certificates of this process. What fails for one owner does not stop the
// others.
//
// With onlyDue it does so only if a certificate is to be renewed, or the last call has not done all.
func (w *Webhooks) Apply(ctx context.Context, wanted Wanted, onlyDue bool) Applied {
	failed, changed := map[string]error{}, true
	if onlyDue && !w.applied.IsZero() {
		changed, failed[""] = w.renew(ctx)
	}
	if changed && failed[""] == nil {
		failed[""] = w.apply(ctx, wanted, failed)
	}
	maps.DeleteFunc(failed, func(_ string, err error) bool { return err == nil })
	switch {
	case len(failed) > 0 || w.absent:
		w.applied = time.Time{}
	case w.applied.IsZero():
		w.applied = time.Now()
	}
	return Applied{w.owners, failed}
}

func (w *Webhooks) apply(ctx context.Context, wanted Wanted, failed map[string]error) error {
	found, err := w.list(ctx)
	if err != nil {
		return err
	}
	after := wanted.after(found)
	w.absent, w.owners = false, map[string]bool{}
	for owner := range found { // first: a certificate that cannot be renewed must not keep what refuses writes
		failed[owner] = w.remove(ctx, owner, found[owner], after)
	}
	for owner := range after {
		w.owners[owner] = true
	}
	if len(after) == 0 {
		return nil
	}
	if err = errors.Join(w.listen(ctx), w.lead(ctx)); w.certs == nil || !w.listens || errors.Is(err, ErrRemoved) {
		return err
	}
	for owner := range after {
		failed[owner] = errors.Join(failed[owner], w.configure(ctx, owner, after[owner]))
	}
	return err
}

// listen has a certificate ready, and begins to answer.
func (w *Webhooks) listen(ctx context.Context) error {
	_, errRenew := w.renew(ctx)
	if w.certs == nil || w.listens {
		return errRenew
	}
	address, err := w.options.Listen(func() (*tls.Certificate, error) { return w.served.Load(), nil })
	if err == nil {
		w.options.Address, w.listens = address, true
	}
	return errors.Join(errRenew, err)
}

// RemoveAll removes what an operator of the namespace has configured, and ends its conversions. A mark on the Secret
// keeps one that still runs from doing it again.
func (w *Webhooks) RemoveAll(ctx context.Context) error {
	mark := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, Label, time.Now().Format(time.RFC3339Nano))
	of := w.client.Resource(v1("", "secrets")).Namespace(w.options.Namespace)
	_, err := of.Patch(ctx, SecretName, types.MergePatchType, mark, metav1.PatchOptions{})
	found, errList := w.list(ctx)
	errs := []error{gone(err), errList}
	for owner := range found {
		errs = append(errs, w.remove(ctx, owner, found[owner], nil))
	}
	return errors.Join(errs...)
}

// list finds what the operator has configured, by owner.
func (w *Webhooks) list(ctx context.Context) (map[string]Owned, error) {
	found := map[string]Owned{}
	options := metav1.ListOptions{LabelSelector: Label + "=" + w.options.Namespace}
	for resource, of := range kinds() {
		list, err := w.client.Resource(v1(admissionv1.GroupName, resource)).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
		for _, item := range list.Items {
			var c admissionv1.MutatingWebhookConfiguration // the other kind has the same fields
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &c); err != nil {
				return nil, fmt.Errorf("%s %s: %w", of.kind, item.GetName(), err)
			}
			owned := found[c.Annotations[Label]]
			*of.of(&owned) = c.Webhooks
			found[c.Annotations[Label]] = owned
		}
	}
	list, err := w.metadata.Resource(v1(definitions, "customresourcedefinitions")).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	for _, crd := range list.Items {
		owned := found[crd.Annotations[Label]]
		owned.CRDs = append(owned.CRDs, crd.Name)
		found[crd.Annotations[Label]] = owned
	}
	return found, nil
}

// remove removes what an owner has and is not to have. A CRD may be another owner's afterwards.
func (w *Webhooks) remove(ctx context.Context, owner string, found Owned, after map[string]Owned) error {
	var errs []error
	own := after[owner]
	for resource, of := range kinds() {
		if len(*of.of(&found)) > 0 && len(*of.of(&own)) == 0 {
			w.options.Log.Info("webhooks are removed", "owner", owner, "kind", of.kind)
			errs = append(errs, gone(w.client.Resource(v1(admissionv1.GroupName, resource)).Delete(ctx, w.name(owner), metav1.DeleteOptions{})))
		}
	}
	for _, crd := range found.CRDs {
		if !slices.ContainsFunc(slices.Collect(maps.Values(after)), func(o Owned) bool { return slices.Contains(o.CRDs, crd) }) {
			errs = append(errs, w.unconvert(ctx, crd))
		}
	}
	return errors.Join(errs...)
}

// configure writes what an owner is to have.
func (w *Webhooks) configure(ctx context.Context, owner string, owned Owned) error {
	var errs []error
	for resource, of := range kinds() {
		if hooks := *of.of(&owned); len(hooks) > 0 {
			errs = append(errs, w.write(ctx, resource, of, owner, hooks))
		}
	}
	for _, crd := range owned.CRDs {
		errs = append(errs, w.convert(ctx, crd, owner))
	}
	return errors.Join(errs...)
}

func (w *Webhooks) name(owner string) string {
	return "addon-operator." + w.options.Namespace + "." + owner
}

func (w *Webhooks) labels() map[string]string { return map[string]string{Label: w.options.Namespace} }

// clientConfig is how the API server calls a path.
func (w *Webhooks) clientConfig(path string) admissionv1.WebhookClientConfig {
	c := admissionv1.WebhookClientConfig{CABundle: w.certs.pem()}
	if w.options.Service == "" {
		c.URL = new("https://" + w.options.Address + path)
	} else {
		c.Service = &admissionv1.ServiceReference{Namespace: w.options.Namespace, Name: w.options.Service, Path: &path, Port: new(int32(443))}
	}
	return c
}

// write writes a configuration.
func (w *Webhooks) write(ctx context.Context, resource string, of configured, owner string, hooks list) error {
	c := admissionv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: of.kind},
		ObjectMeta: metav1.ObjectMeta{Name: w.name(owner), Labels: w.labels(), Annotations: map[string]string{Label: owner}},
	}
	for _, hook := range hooks {
		hook.ClientConfig = w.clientConfig(of.path + owner + "/" + hook.Name)
		hook.AdmissionReviewVersions = []string{"v1"}
		hook.NamespaceSelector = w.excluded(hook.NamespaceSelector)
		if of.path == ValidatePath {
			hook.ReinvocationPolicy = nil
		}
		c.Webhooks = append(c.Webhooks, hook)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
	if err == nil {
		options := metav1.ApplyOptions{FieldManager: manager, Force: true}
		_, err = w.client.Resource(v1(admissionv1.GroupName, resource)).Apply(ctx, c.Name, &unstructured.Unstructured{Object: object}, options)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", of.kind, c.Name, err)
	}
	return nil
}

// excluded is a selector of namespaces that leaves out those without which a cluster, or the operator, cannot be
// repaired: kube-system, and its own. Who names one of them, means it.
func (w *Webhooks) excluded(selector *metav1.LabelSelector) *metav1.LabelSelector {
	selector = cmp.Or(selector, &metav1.LabelSelector{}).DeepCopy()
	named := []string{selector.MatchLabels[corev1.LabelMetadataName]}
	for _, e := range selector.MatchExpressions {
		if e.Key == corev1.LabelMetadataName && e.Operator == metav1.LabelSelectorOpIn {
			named = append(named, e.Values...)
		}
	}
	var out []string
	for _, namespace := range []string{metav1.NamespaceSystem, w.options.Namespace} {
		if !slices.Contains(named, namespace) && !slices.Contains(out, namespace) {
			out = append(out, namespace)
		}
	}
	exclusion := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: out}
	same := func(e metav1.LabelSelectorRequirement) bool { return reflect.DeepEqual(e, exclusion) } // of an earlier process
	if len(out) > 0 && !slices.ContainsFunc(selector.MatchExpressions, same) {
		selector.MatchExpressions = append(selector.MatchExpressions, exclusion)
	}
	return selector
}

// convert writes the conversion into a CRD.
func (w *Webhooks) convert(ctx context.Context, crd, owner string) error {
	client, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(w.clientConfig(ConvertPath + owner + "/" + crd)))
	if err != nil {
		return err
	}
	for _, other := range []string{"url", "service"} { // of an earlier configuration, or of others
		if client[other] == nil {
			client[other] = nil
		}
	}
	err = w.patch(ctx, crd, w.options.Namespace, owner, map[string]any{
		"strategy": "Webhook", "webhook": map[string]any{"clientConfig": client, "conversionReviewVersions": []any{"v1"}},
	})
	if apierrors.IsNotFound(err) { // a module may bring it later, so nothing waits for it
		w.options.Log.Warn("a hook converts objects of a CRD that does not exist; will look for it again", "owner", owner, "crd", crd)
		w.absent, err = true, nil
	}
	return err
}

// unconvert ends the conversion: objects are served again in all versions, unchanged but for apiVersion. With a
// webhook that does not answer, they could not even be deleted.
func (w *Webhooks) unconvert(ctx context.Context, crd string) error {
	w.options.Log.Info("the conversion of a CRD is removed", "crd", crd)
	return gone(w.patch(ctx, crd, nil, nil, map[string]any{"strategy": "None", "webhook": nil}))
}

func (w *Webhooks) patch(ctx context.Context, crd string, label, owner any, conversion map[string]any) error {
	text, err := values.JSON(map[string]any{
		"metadata": map[string]any{"labels": map[string]any{Label: label}, "annotations": map[string]any{Label: owner}},
		"spec":     map[string]any{"conversion": conversion},
	})
	if err != nil {
		return err
	}
	_, err = w.client.Resource(v1(definitions, "customresourcedefinitions")).Patch(ctx, crd, types.MergePatchType, text, metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		return fmt.Errorf("conversion of CustomResourceDefinition %s: %w", crd, err)
	}
	return nil
}

// lead makes the Service lead to the Pod of this process, and to no other: one that was killed restarts with its
// label.
func (w *Webhooks) lead(ctx context.Context) error {
	if w.options.Pod == "" {
		return nil
	}
	options := metav1.ListOptions{LabelSelector: LeaderLabel + "=true"}
	all, err := w.client.Resource(v1("", "pods")).Namespace(w.options.Namespace).List(ctx, options)
	if err != nil {
		return fmt.Errorf("list Pods that answer webhooks: %w", err)
	}
	var errs []error
	mine := false
	for _, pod := range all.Items {
		if mine = mine || pod.GetName() == w.options.Pod; pod.GetName() != w.options.Pod {
			errs = append(errs, gone(label(ctx, w.client, w.options.Namespace, pod.GetName(), "null")))
		}
	}
	if !mine {
		errs = append(errs, label(ctx, w.client, w.options.Namespace, w.options.Pod, `"true"`))
	}
	return errors.Join(errs...)
}

// Yield takes the label from a Pod that is about to compete for the Lease: it restarts, and answers nothing.
func Yield(ctx context.Context, client *kube.Client, namespace, pod string) error {
	unfenced, err := dynamic.NewForConfig(client.Unfenced())
	if err != nil {
		return err
	}
	return gone(label(ctx, unfenced, namespace, pod, "null"))
}

func label(ctx context.Context, client dynamic.Interface, namespace, pod, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, LeaderLabel, value)
	_, err := client.Resource(v1("", "pods")).Namespace(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("label %s of Pod %s: %w", LeaderLabel, pod, err)
	}
	return nil
}

// gone is the error of a request for something that others may have removed.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
