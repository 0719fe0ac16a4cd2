#include "apps/command.hpp"

int main(int argc, char** argv) { return dualpath::apps::run_command_line(argc, argv); }
