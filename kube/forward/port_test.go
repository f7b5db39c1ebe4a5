package forward

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The port of the debug address is that of a variable of the Pod, and an address without a port is refused with a way
// out.
func TestPort(t *testing.T) {
	env := func(value string) corev1.Container {
		return corev1.Container{Env: []corev1.EnvVar{{Name: "OTHER", Value: "127.0.0.1:1"}, {Name: "DEBUG", Value: value}}}
	}
	for name, c := range map[string]struct {
		container corev1.Container
		want      int
		refused   string
	}{
		"nothing is set": {want: 9115},
		"a variable":     {container: env("127.0.0.1:1234"), want: 1234},
		"IPv6":           {container: env("[::1]:1234"), want: 1234},
		"a socket":       {container: env("unix:/run/debug"), refused: "kubectl -n ns exec op"},
		"switched off":   {container: env(""), refused: "kubectl -n ns exec op"},
		"no number":      {container: env("localhost:http"), refused: "contains no port"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := Pod{Namespace: "ns", Name: "op", spec: corev1.PodSpec{Containers: []corev1.Container{c.container}}}
			got, err := pod.Port(9115, "DEBUG")
			if got != c.want || (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}
