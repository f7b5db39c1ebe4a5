package apiserver_test

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/kube/apiserver"
)

// A client of the same process needs no connection: its requests are calls.
func ExampleServer() {
	server := apiserver.New("v1.33.0")
	err := server.Apply(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "greeting", "namespace": "team-a"}, // the namespace is created
		"data":     map[string]any{"text": "hello"},
	})
	if err != nil {
		log.Print(err)
		return
	}
	client := kubernetes.NewForConfigOrDie(server.RESTConfig())
	found, err := client.CoreV1().ConfigMaps("team-a").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		log.Print(err)
		return
	}
	for _, cm := range found.Items {
		fmt.Println(cm.Name, cm.Data["text"])
	}
	// Output: greeting hello
}
