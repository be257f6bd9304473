// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package hollow

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	nodeagentconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/nodeagent/v1alpha1"
	"sigs.k8s.io/yaml"
)

// UserData is what a machine is told by Gardener when it is started.
type UserData struct {
	// Server is the URL of the shoot's kube-apiserver, CA signs for it.
	Server string
	CA     []byte
	// Token is the bootstrap token.
	Token string
	// MachineName is the name of the Machine.
	MachineName string
	// SecretName is the name of the Secret in the shoot with the operating system configuration.
	SecretName string
	// KubernetesVersion is the version of the kubelet that the machine should run.
	KubernetesVersion string
}

// heredoc finds the files in the script that provider-local makes of the configuration: base64 unless what they hold is
// filled in later.
var heredoc = regexp.MustCompile(`(?ms)^cat << EOF( \| base64 -d)? > "([^"]+)"\n(.*?)\nEOF$`)

// ParseUserData reads the script that a real machine would run.
func ParseUserData(script string) (*UserData, error) {
	files := map[string][]byte{}
	for _, match := range heredoc.FindAllStringSubmatch(script, -1) {
		content := []byte(match[3])
		if match[1] != "" {
			decoded, err := base64.StdEncoding.DecodeString(match[3])
			if err != nil {
				return nil, fmt.Errorf("failed to decode file %s of the user data: %w", match[2], err)
			}
			content = decoded
		}
		files[match[2]] = content
	}
	data := &UserData{
		CA:          files[nodeagentconfigv1alpha1.ClusterCAFilePath],
		Token:       strings.TrimSpace(string(files[nodeagentconfigv1alpha1.BootstrapTokenFilePath])),
		MachineName: strings.TrimSpace(string(files[nodeagentconfigv1alpha1.MachineNameFilePath])),
	}
	for path, content := range files {
		if !strings.HasPrefix(path, nodeagentconfigv1alpha1.BaseDir+"/config") {
			continue
		}
		config := struct {
			APIServer struct {
				Server string `json:"server"`
			} `json:"apiServer"`
			Controllers struct {
				OperatingSystemConfig struct {
					SecretName        string          `json:"secretName"`
					KubernetesVersion json.RawMessage `json:"kubernetesVersion"`
				} `json:"operatingSystemConfig"`
			} `json:"controllers"`
		}{}
		if err := yaml.Unmarshal(content, &config); err != nil {
			return nil, fmt.Errorf("failed to decode configuration %s of the user data: %w", path, err)
		}
		data.Server = config.APIServer.Server
		data.SecretName = config.Controllers.OperatingSystemConfig.SecretName
		data.KubernetesVersion = strings.Trim(string(config.Controllers.OperatingSystemConfig.KubernetesVersion), `"`)
	}
	for what, value := range map[string]string{
		"the URL of the kube-apiserver": data.Server, "its CA": string(data.CA), "a bootstrap token": data.Token,
		"the name of the machine": data.MachineName,
		"the name of the Secret with the operating system configuration": data.SecretName,
	} {
		if value == "" {
			return nil, fmt.Errorf("the user data lacks %s", what)
		}
	}
	return data, nil
}
