// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Token is a token of a ServiceAccount, as kubelet mounts it into a pod, or of no pod if pod is
// nil.
func Token(ctx context.Context, client kubernetes.Interface, namespace, account string, pod *corev1.Pod) (string, error) {
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// WriteKubeconfig writes to path how the holder of a token reaches the API server by way of the
// recorder.
func (r *Recorder) WriteKubeconfig(path, token string) error {
	file := clientcmdapi.NewConfig()
	file.Clusters["cluster"] = &clientcmdapi.Cluster{Server: r.address, CertificateAuthorityData: r.authority}
	file.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: token}
	file.Contexts["context"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "account"}
	file.CurrentContext = "context"
	return clientcmd.WriteToFile(*file, path)
}
