package examples_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"addon-operator/testkit/devclustertest"
)

const (
	ownModule              = "## A module of your own"
	intoCluster            = "## Into your cluster"
	intoClusterOfFirstHour = "## 8. Into your cluster"
)

// helmVariable makes this test binary the program helm. It holds values to set besides those of the command.
const helmVariable = "ADDON_OPERATOR_EXAMPLES_HELM"

// together is the number of tests at a time: all of them, because each but TestIntoACluster waits for its turn (alone).
const together = "32"

func TestMain(m *testing.M) {
	if more, ok := os.LookupEnv(helmVariable); ok {
		if err := helm(os.Args[1:], more); err != nil {
			fmt.Fprintln(os.Stderr, "helm:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	_ = flag.Set("test.parallel", together) // the flag exists in every test binary
	os.Exit(m.Run())
}

// helm is 'helm install' and 'helm uninstall', by Helm's library: its program needs modules that we do not have.
func helm(args []string, more string) error {
	flags := pflag.NewFlagSet("helm", pflag.ContinueOnError)
	namespace := flags.StringP("namespace", "n", "default", "")
	set := flags.String("set", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	access := genericclioptions.NewConfigFlags(false)
	access.Namespace = namespace
	config := new(action.Configuration)
	if err := config.Init(access, *namespace, "secret", func(string, ...any) {}); err != nil {
		return err
	}
	switch args = flags.Args(); {
	case len(args) == 3 && args[0] == "install":
		values := map[string]any{}
		for _, pairs := range []string{*set, more} {
			if err := strvals.ParseInto(pairs, values); err != nil {
				return err
			}
		}
		chart, err := loader.LoadDir(args[2])
		if err != nil {
			return err
		}
		install := action.NewInstall(config)
		install.ReleaseName, install.Namespace = args[1], *namespace
		_, err = install.Run(chart, values)
		return err
	case len(args) == 2 && args[0] == "uninstall":
		_, err := action.NewUninstall(config).Run(args[1])
		return err
	}
	return fmt.Errorf("nobody knows what helm %q does here", args)
}

// docker stands in for the program docker and for a registry: an image is a directory with the files of its last stage, and a
// file next to it says that it was pushed. The image of the repository has a program, and no modules; its own steps are
// played by TestImageIsBuilt.
const docker = `#!/usr/bin/env bash
set -euo pipefail
path() { echo "$IMAGES/${1/:/_}"; } # a colon separates directories of modules
case "$1 $#" in
"push 2") [[ -d $(path "$2") ]] && touch "$(path "$2").pushed" ;;
"build 4")
  [[ $2 == -t ]]
  image=$(path "$3")
  mkdir -p "$image"
  if [[ $4 == . ]]; then
    grep -q '^FROM base AS operator$' Dockerfile
    mkdir "$image/modules" "$image/global-hooks"
    exit
  fi
  while read -r word from to; do
    case $word in
    FROM) cp -R "$(path "$from")/." "$image" ;;
    COPY) cp -R "$4/$from/." "$image$to" ;;
    *) echo "$word is not known here" && exit 1 ;;
    esac
  done <"$4/Dockerfile" ;;
*) echo "docker $* is not known here" && exit 1 ;;
esac
`

// stranger has a cluster, a clone of the repository, and what the pages ask for.
type stranger struct {
	*terminal
	images string
	port   string // of probes and metrics of the Pod
	output output
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	if testing.Short() || raced {
		t.Skip("needs a Kubernetes API server, and builds programs")
	}
	cluster := devclustertest.StartWithNode(t)
	if err := built(); err != nil {
		t.Fatal(err)
	}
	root, home, binary := abs(t, ".."), t.TempDir(), abs(t, os.Args[0])
	s := &stranger{images: filepath.Join(home, "images"), port: freePort(t)}
	clone, bin := filepath.Join(home, "addon-operator"), filepath.Join(home, "bin")
	// The Pods of this cluster have the ports of this machine.
	standIn := fmt.Sprintf("#!/bin/sh\n%s='ports.metrics=%s,options.DEBUG_HTTP_SERVER_ADDR=127.0.0.1:%s' exec '%s' \"$@\"\n", helmVariable, s.port, freePort(t), binary)
	for path, text := range map[string]string{filepath.Join(bin, "docker"): docker, filepath.Join(bin, "helm"): standIn} {
		if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	// kubectl and jq are on the path of the stranger; of the clone, only what is built and what the pages name.
	for link, to := range map[string]string{
		filepath.Join(clone, "bin/addon-operator"): filepath.Join(root, "bin/addon-operator"),
		filepath.Join(clone, "deploy"):             filepath.Join(root, "deploy"),
		filepath.Join(clone, "Dockerfile"):         filepath.Join(root, "Dockerfile"),
		filepath.Join(home, ".kube/config"):        cluster.Kubeconfig(),
		filepath.Join(bin, "kubectl"):              filepath.Join(cluster.Tools(t), "kubectl"),
		filepath.Join(bin, "jq"):                   filepath.Join(cluster.Tools(t), "jq"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(to, link)); err != nil {
			t.Fatal(err)
		}
	}
	begin := fmt.Sprintf(`export PATH='%s':$PATH IMAGES='%s'
[ ! -e ~/.variables ] || . ~/.variables
set -eEuo pipefail
trap 'echo "%s$BASH_COMMAND"' ERR
trap 'declare -p image PATH >~/.variables 2>/dev/null || true' EXIT
`, bin, s.images, failed)
	s.terminal = &terminal{t, s.output.String, begin, clone, home}
	return s
}

// runPod runs the operator as the Pod of the Deployment would run it: with the arguments and variables of its container, the
// files of its image, and the rights of its ServiceAccount.
func (s *stranger) runPod() {
	s.Helper()
	s.plays([]step{{commands: "kubectl -n addon-operator wait --for=condition=Available deployment/addon-operator --timeout=60s"}}, "condition met")
	var pods corev1.PodList
	if err := json.Unmarshal([]byte(s.paste("kubectl -n addon-operator get pods -l app.kubernetes.io/name=addon-operator -o json")), &pods); err != nil || len(pods.Items) != 1 {
		s.Fatalf("%v, %d Pods", err, len(pods.Items))
	}
	pod := pods.Items[0]
	container := pod.Spec.Containers[0]
	files := filepath.Join(s.images, strings.ReplaceAll(container.Image, ":", "_"))
	if _, err := os.Stat(files + ".pushed"); err != nil {
		s.Fatalf("the image %s cannot be pulled: %v", container.Image, err)
	}
	access := filepath.Join(s.home, "pod.kubeconfig")
	s.plays([]step{{commands: fmt.Sprintf(`cp ~/.kube/config %[1]s
kubectl --kubeconfig %[1]s config unset users >/dev/null
kubectl --kubeconfig %[1]s config set-credentials pod --token="$(kubectl -n %[2]s create token %[3]s)"
kubectl --kubeconfig %[1]s config set-context --current --user=pod`, access, pod.Namespace, pod.Spec.ServiceAccountName)}}, "modified")
	cmd := exec.Command(filepath.Join(s.dir, "bin/addon-operator"), container.Args...)
	for _, v := range container.Env {
		if v.ValueFrom != nil {
			field := map[string]string{"metadata.namespace": pod.Namespace, "metadata.name": pod.Name, "status.podIP": "127.0.0.1"}
			value, known := field[v.ValueFrom.FieldRef.FieldPath]
			if !known {
				s.Fatalf("what is %v?", v.ValueFrom)
			}
			v.Value = value
		}
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	// What differs from the Pod: where the files of its image are, and its directory for files.
	cmd.Env = append(cmd.Env, "KUBECONFIG="+access, "ADDON_OPERATOR_WORKING_DIR="+files, "HOME="+s.TempDir(), "ADDON_OPERATOR_TMP_DIR="+s.TempDir(),
		"DEBUG_UNIX_SOCKET=", "ADDON_OPERATOR_LISTEN_ADDRESS=127.0.0.1", "PATH="+filepath.Join(s.home, "bin")+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	var why error
	go func() {
		why = cmd.Wait()
		close(ended)
	}()
	// The kubelet ends the container of a Pod that is deleted: without its rights the operator would end by itself, as
	// one that has lost its lease.
	deleted := exec.Command(filepath.Join(s.home, "bin/kubectl"), "--kubeconfig", filepath.Join(s.home, ".kube/config"), "-n", pod.Namespace, "wait", "--for=delete", "--timeout=1h", "pod/"+pod.Name)
	if err := deleted.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		if deleted.Wait() == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}()
	s.Cleanup(func() {
		_ = deleted.Process.Kill()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if why != nil {
			s.Errorf("the operator ended: %v\n%s", why, s.output.String())
		}
	})
	s.probe(container.ReadinessProbe, ended)
}

// probe waits until the Pod is ready.
func (s *stranger) probe(probe *corev1.Probe, ended <-chan struct{}) {
	s.Helper()
	late, tick := time.After(patience), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := http.Get("http://127.0.0.1:" + s.port + probe.HTTPGet.Path) //nolint:noctx // on this machine
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
			continue
		case <-ended:
		case <-late:
		}
		s.Fatalf("the operator is not ready:\n%s", s.output.String())
	}
}

// output is what a process prints while others read it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// freePort is a port without a listener, for a moment.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Who follows the pages into a cluster has the modules there, with the rights that were granted and no others.
func TestIntoACluster(t *testing.T) {
	t.Parallel()
	t.Run("by the README", func(t *testing.T) {
		t.Parallel() // both wait for a minute: without watches the operator asks for objects so often
		s := newStranger(t)
		files, _, _ := strings.Cut(steps(t, readme, ownModule)[0].commands, "MODULES_DIR=")
		s.plays([]step{{commands: files}}, `^$`)
		all := steps(t, readme, intoCluster)
		s.plays(all[:1], `configured|created`)
		s.runPod()
		s.plays(all[1:], `(?m)^hello +True +ready +1/1`)
		s.plays([]step{{commands: "kubectl -n addon-operator get configmap hello -o yaml"}}, `text: hello world, v1\.`)
		s.nothingIsForbidden()
	})
	t.Run("by the first hour", func(t *testing.T) {
		t.Parallel() // both wait for a minute: without watches the operator asks for objects so often
		s := newStranger(t)
		// What the first hour has made so far, without what was only tried.
		first, _, _ := strings.Cut(steps(t, firstHour, "## 1. Start")[0].commands, "rm -rf .run")
		earlier := []string{first, "cd ~/hello"}
		for _, heading := range []string{"## 2. A module is a directory", "## 4. A hook", "## 6. Refuse nonsense"} {
			earlier = append(earlier, steps(t, firstHour, heading)[0].commands)
		}
		away, _, _ := strings.Cut(steps(t, firstHour, "## 7. Take it away")[0].commands, "\n")
		s.plays([]step{{commands: strings.Join(append(earlier, away), "\n")}}, `^$`)

		all := steps(t, firstHour, intoClusterOfFirstHour)
		const untilInstalled, untilLooked = 5, 6
		s.plays(all[:untilInstalled], `devcluster`, ``, ``, `role.rbac.authorization.k8s.io/addon-operator-modules created`, ``)
		s.runPod()
		s.plays(all[untilInstalled:untilLooked], ``)
		s.nothingIsForbidden()
		s.plays(all[untilLooked:], `greeterEnabled: .* -> false`, `customresourcedefinition.* deleted`)
		if left := s.paste("kubectl get namespaces,clusterroles,clusterrolebindings,customresourcedefinitions -o name"); strings.Contains(left, "addon-operator") {
			t.Errorf("something is left:\n%s", left)
		}
	})
}

// nothingIsForbidden looks into the log: only watches of charts in all namespaces are not granted, without --watch-charts.
func (s *stranger) nothingIsForbidden() {
	s.Helper()
	for line := range strings.SplitSeq(s.output.String(), "\n") {
		if strings.Contains(line, "forbidden") && !strings.Contains(line, "at the cluster scope") {
			s.Errorf("a right is missing: %s", line)
		}
	}
}
