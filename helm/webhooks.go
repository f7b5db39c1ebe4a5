package helm

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// webhookTimeout bounds the question whose webhook has failed.
const webhookTimeout = 5 * time.Second

// FailedWebhook is the advice for a write that the API server has refused because it could not call an admission webhook: who
// brought the webhook. text is that of the error. It is empty for all other errors. Without the permission to list the
// configurations only the webhook is named.
func (c *Client) FailedWebhook(ctx context.Context, text string) string {
	return c.root.failedWebhook(ctx, text)
}

func (h *home) failedWebhook(ctx context.Context, text string) string {
	found := regexp.MustCompile(`failed calling webhook \\?"([^"\\]+)\\?"`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	const way = "; wait until the Pods of its service run, or disable the module, which takes the webhook away"
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	for _, kind := range []string{"Validating", "Mutating"} {
		resource := map[string]string{"Validating": "validatingwebhookconfigurations", "Mutating": "mutatingwebhookconfigurations"}[kind]
		list, err := h.dynamic.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, configuration := range list.Items {
			if !hasWebhook(configuration, found[1], text) {
				continue
			}
			who := fmt.Sprintf("the webhook %s is in %sWebhookConfiguration %s", found[1], kind, configuration.GetName())
			them := configuration.GetAnnotations()
			if them[ownerName] == "" {
				return who + ", which is not of a module; make its service answer, or delete it"
			}
			if in := them[ownerNamespace]; cmp.Or(in, h.options.Namespace) != h.options.Namespace && configuration.GetLabels()[MarkLabel] == "" {
				return fmt.Sprintf("%s of release %s in namespace %s; make its service answer, or uninstall that release", who, them[ownerName], in)
			}
			return who + ", which module " + cmp.Or(configuration.GetLabels()[MarkLabel], them[ownerName]) + " brought" + way
		}
	}
	return "make the service of webhook " + found[1] + " answer, or delete its configuration"
}

// hasWebhook looks for the webhook of an error: by its name, and by its service, because others may have the same name.
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
