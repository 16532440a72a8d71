// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/agent/node/nodeutil"
)

// newAuth returns the authentication and authorization of requests to the node. It reloads the file
// of certificate authorities until ctx ends. Without such a file, only bearer tokens are accepted.
func newAuth(ctx context.Context, node string, client kubernetes.Interface, authorities string) (nodeutil.Auth, error) {
	return nodeutil.WebhookAuth(client, node, func(config *nodeutil.WebhookAuthConfig) error {
		if authorities == "" {
			return nil
		}
		content, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", authorities)
		if err != nil {
			return err
		}
		go content.Run(ctx, 1)
		config.AuthnConfig.ClientCertificateCAContentProvider = content
		return nil
	})
}
