# One image for every process: worker, setup, and the commands of the CLI.
FROM node:24-slim

# The Temporal client reads the system's certificates, which the slim image lacks.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates \
  && rm -rf /var/lib/apt/lists/*

# Commands that wait for a run keep a lock and a socket in the home, and /app is not theirs to write.
ENV NODE_ENV=production CHARGEONCE_HOME=/home/node/.chargeonce
WORKDIR /app

# Dependencies first: they change less often than the code. Optional ones stay in, since the
# bundler of the workflows comes as one per platform.
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev && npm cache clean --force

COPY LICENSE ./
COPY bin ./bin
COPY migrations ./migrations
COPY examples ./examples
COPY src ./src

# Owned by root and run by another: the process cannot change its own code.
USER node

ENTRYPOINT ["./bin/chargeonce"]
CMD ["--help"]
