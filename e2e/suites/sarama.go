package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"polylog/e2e/harness"
)

// sarama's functional tests want a cluster of five brokers behind a proxy, at fixed ports, with an HTTP interface by which they cut connections. One broker is put
// behind all five ports. What asks for copies on several brokers is made to ask for one, in a copy of the sources that lies in a temporary folder.
const (
	proxyModule  = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"
	proxies      = 5
	proxyFirst   = 29091 // fixed in the suite
	kafkaVersion = "4.1.0"

	saramaProxied = "127.0.0.1:29091" // proxyFirst: what the broker tells clients
)

func prepareSarama(ctx context.Context, module, address string) (run string, env []string, end func() error, err error) {
	temp, err := os.MkdirTemp("", "polylog-sarama-")
	if err != nil {
		return "", nil, nil, err
	}
	run = filepath.Join(temp, "sarama")
	if err := oneCopy(module, run); err != nil {
		return "", nil, nil, errors.Join(err, os.RemoveAll(temp))
	}
	api, stop, err := startProxy(ctx, temp, address)
	end = func() error { return errors.Join(stop(), os.RemoveAll(temp)) }
	if err != nil {
		return "", nil, nil, errors.Join(err, end())
	}
	return run, []string{"TOXIPROXY_ADDR=http://" + api, "KAFKA_VERSION=" + kafkaVersion}, end, nil
}

// oneCopy copies the module to folder, with tests that ask for three copies of a topic made to ask for one.
func oneCopy(module, folder string) error {
	if err := os.CopyFS(folder, os.DirFS(module)); err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(folder, "functional*_test.go"))
	if err != nil {
		return err
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("ReplicationFactor: 3,"), []byte("ReplicationFactor: 1,"))
		// The module cache is read only, and so is a copy of it.
		if err := errors.Join(os.Remove(name), os.WriteFile(name, text, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// startProxy builds and starts the proxy, with all its ports leading to address.
func startProxy(ctx context.Context, temp, address string) (api string, stop func() error, err error) {
	stop = nothing
	install := exec.CommandContext(ctx, "go", "install", proxyModule)
	install.Env = append(os.Environ(), "GOBIN="+temp, "GOFLAGS=")
	install.Dir = temp
	if text, err := install.CombinedOutput(); err != nil {
		return "", stop, fmt.Errorf("building %s: %w: %s", proxyModule, err, text)
	}
	port, err := harness.FreePort()
	if err != nil {
		return "", stop, err
	}
	api = fmt.Sprintf("127.0.0.1:%d", port)
	server := exec.Command(filepath.Join(temp, "server"), "-host", "127.0.0.1", "-port", fmt.Sprint(port))
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return "", stop, err
	}
	stop = func() error {
		err := server.Process.Kill()
		server.Wait() //nolint:errcheck // it was killed
		return err
	}
	for i := range proxies {
		proxy := map[string]any{"name": fmt.Sprintf("kafka%d", i+1), "listen": fmt.Sprintf("127.0.0.1:%d", proxyFirst+i), "upstream": address, "enabled": true}
		body, err := json.Marshal(proxy)
		if err != nil {
			return "", stop, err
		}
		err = harness.Await(10*time.Second, "the proxy to take its ports", func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+api+"/proxies", bytes.NewReader(body))
			if err != nil {
				return err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close() //nolint:errcheck // its status says all
			if res.StatusCode != http.StatusCreated {
				return fmt.Errorf("the proxy answers %s", res.Status)
			}
			return nil
		})
		if err != nil {
			return "", stop, err
		}
	}
	return api, stop, nil
}
