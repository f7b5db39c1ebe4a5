package helm

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// webhookTimeout bounds the question whose webhook has failed.
const webhookTimeout = 5 * time.Second

// FailedWebhook is the advice for a write that the API server has refused because it could not call
// an admission webhook, or a conversion webhook: which module or release has installed the webhook
// (H24). text is that of the error. It is empty for all other errors. Without permission to list
// the configurations only the webhook is named.
func (c *Client) FailedWebhook(ctx context.Context, text string) string {
	return c.root.failedWebhook(ctx, text)
}

func (h *home) failedWebhook(ctx context.Context, text string) string {
	if found := regexp.MustCompile(`conversion webhook for ([^ ,]+), Kind=(\w+) failed: .{0,60}?https://` + serviceHost).FindStringSubmatch(text); found != nil {
		return h.failedConversion(ctx, found[1], found[2], found[4]+"/"+found[3])
	}
	found := regexp.MustCompile(`failed calling webhook \\?"([^"\\]+)\\?"`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	const way = "; wait until the Pods of its service run, or disable the module, which removes the webhook"
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	for _, kind := range []string{"Validating", "Mutating"} {
		resource := strings.ToLower(kind) + "webhookconfigurations"
		list, err := h.dynamic.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, configuration := range list.Items {
			if !hasWebhook(configuration, found[1], text) {
				continue
			}
			who := fmt.Sprintf("the webhook %s is in %sWebhookConfiguration %s", found[1], kind, configuration.GetName())
			if configuration.GetAnnotations()[ownerName] == "" {
				return who + ", which no module installed; make its service answer, or delete it"
			}
			by := h.broughtBy(&configuration)
			if strings.HasPrefix(by, "release ") {
				return who + " of " + by + "; make its service answer, or uninstall that release"
			}
			return who + ", which " + by + " installed" + way
		}
	}
	return "make the service of webhook " + found[1] + " answer, or delete its configuration"
}

// failedConversion is the advice for an object whose version the service of a conversion webhook
// must convert. What it cannot read, it leaves out of the sentence.
func (h *home) failedConversion(ctx context.Context, version, kind, service string) string {
	const way = "; wait until its Pods run"
	who := fmt.Sprintf("the service %s converts %s", service, kind)
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	gv, _ := schema.ParseGroupVersion(version)
	mapping, err := h.kinds.Mapper().RESTMapping(gv.WithKind(kind).GroupKind(), gv.Version)
	if err != nil {
		return who + way
	}
	name := mapping.Resource.Resource + "." + gv.Group
	who += ", according to CustomResourceDefinition " + name
	definition, err := h.metadata.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return who + way
	case definition.Annotations[ownerName] != "":
		return who + ", which " + h.broughtBy(definition) + " installed" + way
	case slices.ContainsFunc(definition.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "addon-operator" }):
		return who + ", which a module has in crds/" + way
	}
	return who + ", which no module installed" + way
}

// broughtBy names the module, or another release, that has an object. An object of a release in
// another namespace is a module's only if it has our label, which no chart can set.
func (h *home) broughtBy(o metav1.Object) string {
	them := o.GetAnnotations()
	if in := them[ownerNamespace]; cmp.Or(in, h.options.Namespace) != h.options.Namespace && o.GetLabels()[MarkLabel] == "" {
		return fmt.Sprintf("release %s in namespace %s", them[ownerName], in)
	}
	return "module " + cmp.Or(o.GetLabels()[MarkLabel], them[ownerName])
}

// hasWebhook looks for the webhook of an error: by its name, and by its service in the URL of the
// error, because names are unique in one configuration only. A webhook with a URL of its own has no
// service.
func hasWebhook(configuration unstructured.Unstructured, name, text string) bool {
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, w := range webhooks {
		fields, _ := w.(map[string]any)
		service, _, _ := unstructured.NestedStringMap(fields, "clientConfig", "service")
		if fields["name"] == name && (service == nil || strings.Contains(text, "//"+service["name"]+"."+service["namespace"]+".svc")) {
			return true
		}
	}
	return false
}
