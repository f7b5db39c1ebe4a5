package main

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The two users of the token file. Both may do everything; they have two names
// so that audit logs and managedFields distinguish them.
const (
	adminUser      = "admin"
	controllerUser = "system:kube-controller-manager"
	masters        = "system:masters"
)

// access is how one gets into the cluster.
type access struct {
	server      string // URL
	tokens      string // path of the API server's token file
	kubeconfig  string // path, admin
	controllers string // path, kubeconfig of the controllers
	admin       *kubernetes.Clientset
}

// ensureAccess writes the token file, when there is none, and the kubeconfigs
// for the API server at address (host:port).
func ensureAccess(dir, address string, keys pki) (access, error) {
	a := access{
		server:      "https://" + address,
		tokens:      filepath.Join(dir, "tokens.csv"),
		kubeconfig:  filepath.Join(dir, "kubeconfig"),
		controllers: filepath.Join(dir, "controllers.kubeconfig"),
	}
	tokens, err := ensureTokens(a.tokens)
	if err != nil {
		return access{}, fmt.Errorf("tokens: %w", err)
	}
	err = errors.Join(
		a.writeKubeconfig(a.kubeconfig, adminUser, tokens[adminUser], keys.ca),
		a.writeKubeconfig(a.controllers, controllerUser, tokens[controllerUser], keys.ca),
	)
	if err != nil {
		return access{}, fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	if err != nil {
		return access{}, fmt.Errorf("kubeconfig: %w", err)
	}
	config.QPS = -1 // no limit: it only asks whether the cluster is ready
	config.WarningHandler = rest.NoWarnings{}
	a.admin, err = kubernetes.NewForConfig(config)
	return a, err
}

// ensureTokens returns token by user from the file, which it makes when there
// is none: token, user, uid, groups.
func ensureTokens(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data = fmt.Appendf(nil, "%s,%s,%s,%s\n%s,%s,%s,%s\n",
			rand.Text(), adminUser, adminUser, masters,
			rand.Text(), controllerUser, controllerUser, masters)
		err = writeFile(path, data)
	}
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(string(data))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tokens := make(map[string]string, len(rows))
	for _, row := range rows {
		if len(row) > 1 {
			tokens[row[1]] = row[0]
		}
	}
	if tokens[adminUser] == "" || tokens[controllerUser] == "" {
		return nil, fmt.Errorf("%s: no token for %s or %s: delete the file", path, adminUser, controllerUser)
	}
	return tokens, nil
}

// writeKubeconfig writes a kubeconfig that holds everything: it can be copied.
func (a access) writeKubeconfig(path, user, token, caPath string) error {
	ca, err := os.ReadFile(caPath)
	if err != nil {
		return err
	}
	const name = "devcluster"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: a.server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &api.AuthInfo{Token: token}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: user, Namespace: metav1.NamespaceDefault}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// apiServerReady is nil when the API server answers that it is ready.
func (a access) apiServerReady(ctx context.Context) error {
	return a.admin.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// controllersReady is nil when there is proof that controllers work: without
// the account they make in each namespace no Pod is admitted.
func (a access) controllersReady(ctx context.Context) error {
	_, err := a.admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}
